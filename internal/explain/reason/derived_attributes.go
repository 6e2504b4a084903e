// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// underivable says of which device a derived attribute cannot be evaluated, and why not.
func (a *Answer) underivable(c *solver.Culprit, x *compile.Alternative) Cause {
	name, _ := compile.Attribute(&a.Claims[c.Member.Claim].Claim.Spec.Devices.Constraints[c.Constraint])
	_, err := a.Attribute(x, c.Device, name)
	return Cause{Code: DerivedAborts, Text: fmt.Sprintf(
		"derived attribute %s of %s cannot be evaluated for %s, which ends the scheduling of the pod on every node: %v",
		name, x.Name, a.DeviceName(c.Device), err)}
}

// has says whether a device has a value for a request, published or derived.
func (a *Answer) has(x *compile.Alternative, d int, name string) bool {
	attribute, err := a.Attribute(x, d, name)
	return attribute != nil && err == nil
}

// derives says whether any alternative of a request derives an attribute.
func derives(r *compile.Request, name string) bool {
	return slices.ContainsFunc(r.Alternatives, func(x compile.Alternative) bool { return x.Values[name] != nil })
}

// deriving are the requests of the claim that derive what the constraint compares.
func (a *Answer) deriving(t *conflictConstraint) []string {
	var names []string
	for i := range a.Claims[t.claim].Requests {
		if r := &a.Claims[t.claim].Requests[i]; t.about(r) && derives(r, t.attribute) {
			names = append(names, r.Name)
		}
	}
	return names
}

// derivedText says how a request derives some of the attributes that are compared.
func derivedText(x *compile.Alternative, attributes []string) string {
	var all []string
	for _, name := range attributes {
		// The last of a name is the one that counts.
		for _, attribute := range slices.Backward(x.Derives) {
			if string(attribute.Name) == name && x.Values[name] != nil {
				all = append(all, fmt.Sprintf("%s derived as %s", bare(name), strings.Join(strings.Fields(attribute.Expression), " ")))
				break
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ", its " + join(all)
}
