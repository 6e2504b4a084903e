// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/solver"
)

// Derived is what the expression of a derived attribute makes of a device: a value, or
// an error, which ends the allocation when the allocator comes to compare it.
type Derived struct {
	Attribute *resourceapi.DeviceAttribute
	Err       error
}

// derive evaluates what a request derives from the devices that match it. Of two
// attributes with one name, which the API server refuses, the allocator knows the last.
func (e *evaluation) derive(a *Alternative) {
	if len(a.Derives) == 0 || !e.cluster.Gates.DerivedAttributes {
		return
	}
	a.Values = map[string][]Derived{}
	for _, attribute := range a.Derives {
		values := make([]Derived, len(e.node.Devices))
		for d := range e.node.Devices {
			if a.Why[d].Obstacle.Matches() {
				values[d].Attribute, values[d].Err = e.selectors.derive(e.ctx, attribute.Expression, &e.node.Devices[d])
			}
		}
		a.Values[string(attribute.Name)] = values
	}
}

// Attribute is what constraints compare of a device for a request: the attribute that
// the request derives, else the one that the device publishes, nil if there is none.
func (n *Node) Attribute(a *Alternative, d int, name string) (*resourceapi.DeviceAttribute, error) {
	if values, derived := a.Values[name]; derived {
		return values[d].Attribute, values[d].Err
	}
	return Lookup(&n.Devices[d], name), nil
}

// derivedValues are the values of an attribute for those requests under a constraint that
// derive it, nil if none does.
func (n *Node) derivedValues(claim *Claim, applies [][]bool, name string, ids numbering) [][][]solver.Value {
	all := make([][][]solver.Value, len(claim.Requests))
	found := false
	for r := range claim.Requests {
		all[r] = make([][]solver.Value, len(claim.Requests[r].Alternatives))
		for a := range claim.Requests[r].Alternatives {
			values, derived := claim.Requests[r].Alternatives[a].Values[name]
			if !derived || !applies[r][a] {
				continue
			}
			found = true
			all[r][a] = make([]solver.Value, len(n.Devices))
			for d, v := range values {
				if v.Err != nil {
					all[r][a][d] = solver.Value{Kind: solver.Underivable}
				} else {
					all[r][a][d] = ids.value(v.Attribute, n.Cluster.Gates.ListTypeAttributes)
				}
			}
		}
	}
	if !found {
		return nil
	}
	return all
}
