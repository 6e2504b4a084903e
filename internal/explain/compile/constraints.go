// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// Attribute is the attribute that a constraint compares, and whether its values
// are to be distinct. It is empty for a constraint of a newer API.
func Attribute(c *resourceapi.DeviceConstraint) (name string, distinct bool) {
	switch {
	case c.MatchAttribute != nil:
		return string(*c.MatchAttribute), false
	case c.DistinctAttribute != nil:
		return string(*c.DistinctAttribute), true
	}
	return "", false
}

// ConstraintRefused says why the allocator refuses to begin because of a
// constraint, "" if it does not.
func (n *Node) ConstraintRefused(c *resourceapi.DeviceConstraint) string {
	switch name, distinct := Attribute(c); {
	case name == "":
		return "it is of a kind that is not known"
	case distinct && !allocation.KnowsConsumableCapacity(n.Cluster.Gates):
		return "it is a distinctAttribute, and feature gate " + allocation.GateConsumableCapacity + " is off"
	}
	return ""
}

// Applies says whether a constraint is about an alternative of a request: it
// names the request, or the subrequest, or nothing.
func Applies(c *resourceapi.DeviceConstraint, request string, a *Subrequest) bool {
	return len(c.Requests) == 0 || slices.Contains(c.Requests, request) || slices.Contains(c.Requests, a.Name)
}

func (n *Node) constraint(claim *Claim, k int) solver.Constraint {
	c := &claim.Claim.Spec.Devices.Constraints[k]
	name, distinct := Attribute(c)
	s := solver.Constraint{Invalid: n.ConstraintRefused(c) != "", Distinct: distinct, Values: make([]solver.Value, len(n.Devices))}
	for r := range claim.Requests {
		var applies []bool
		for a := range claim.Requests[r].Alternatives {
			applies = append(applies, Applies(c, claim.Requests[r].Name, &claim.Requests[r].Alternatives[a].Subrequest))
		}
		s.Applies = append(s.Applies, applies)
	}
	ids := numbering{}
	for d := range n.Devices {
		s.Values[d] = ids.value(Lookup(&n.Devices[d], name), n.Cluster.Gates.ListTypeAttributes)
	}
	s.Derived = n.derivedValues(claim, s.Applies, name, ids)
	return s
}

// Lookup finds an attribute of a device as constraints do: by its whole name, or
// without the domain where that is the driver's own. It is nil if there is none.
func Lookup(d *Device, name string) *resourceapi.DeviceAttribute {
	if value, found := d.Device.Attributes[resourceapi.QualifiedName(name)]; found {
		return &value
	}
	domain, bare, qualified := strings.Cut(name, "/")
	if !qualified || domain != d.ID.Driver {
		return nil
	}
	if value, found := d.Device.Attributes[resourceapi.QualifiedName(bare)]; found {
		return &value
	}
	return nil
}

// numbering gives equal values of equal type equal numbers.
type numbering map[string]int

func (ids numbering) of(value string) int {
	id, known := ids[value]
	if !known {
		id = len(ids)
		ids[value] = id
	}
	return id
}

func (ids numbering) value(a *resourceapi.DeviceAttribute, lists bool) solver.Value {
	if a == nil {
		return solver.Value{}
	}
	values, list := Values(a)
	if !lists {
		if list || len(values) == 0 {
			return solver.Value{Kind: solver.Incomparable}
		}
		return solver.Value{Kind: solver.Scalar, ID: ids.of(values[0])}
	}
	if len(values) == 0 {
		return solver.Value{}
	}
	var all []int
	for _, v := range values {
		all = append(all, ids.of(v))
	}
	slices.Sort(all)
	return solver.Value{Kind: solver.Set, IDs: slices.Compact(all)}
}

// Values lists the values of an attribute with their type, and says whether it
// is a list. Of lists the allocator takes the first kind that has any.
func Values(a *resourceapi.DeviceAttribute) (values []string, list bool) {
	switch {
	case a.StringValue != nil:
		return []string{"string " + *a.StringValue}, false
	case a.IntValue != nil:
		return []string{"int " + strconv.FormatInt(*a.IntValue, 10)}, false
	case a.BoolValue != nil:
		return []string{"bool " + strconv.FormatBool(*a.BoolValue)}, false
	case a.VersionValue != nil:
		return []string{"version " + *a.VersionValue}, false
	}
	for _, l := range [][]string{
		texts("int", a.IntValues), texts("bool", a.BoolValues), texts("string", a.StringValues), texts("version", a.VersionValues),
	} {
		if len(l) > 0 {
			return l, true
		}
	}
	return nil, false
}

func texts[T any](kind string, values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = fmt.Sprintf("%s %v", kind, v)
	}
	return all
}
