// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// instead are the attributes to compare instead of one, the nearest first, and what
// that comes to: wider ones, and for sockets, which fewer drivers publish, what
// all do.
func instead(old string) []comparison {
	node := comparison{slicecodec.AttrNUMANode, "the same NUMA node, if that is near enough"}
	legacy := comparison{slicecodec.AttrLegacyNUMANode, node.means}
	socket := comparison{slicecodec.AttrSocket, "the same socket, if that is near enough"}
	switch old {
	case slicecodec.AttrNUMANode:
		return []comparison{socket}
	case slicecodec.AttrLegacyNUMANode:
		return []comparison{node, socket}
	case slicecodec.AttrSocket:
		return []comparison{{slicecodec.AttrNUMANode, "the same NUMA node, which is nearer, and which these devices say"}}
	}
	return []comparison{node, legacy, socket}
}

// comparison is an attribute that devices can share, and what it means.
type comparison struct{ attribute, means string }

// relax compares something else where a constraint compares what cannot be had:
// in one constraint, or in all that compare the same.
func (f *finder) relax() {
	_, constraints := f.conflictMembers()
	seen := map[string]bool{}
	for _, p := range constraints {
		old, distinct := compile.Attribute(f.constraint(p))
		if distinct || old == "" || seen[old] {
			continue
		}
		for _, c := range instead(old) {
			if f.relaxed(fmt.Sprintf("constraint %d", p.index), old, c, func(o memberRef) bool { return o == p }) ||
				f.relaxed("all constraints on it", old, c, func(memberRef) bool { return true }) {
				seen[old] = true
				break
			}
		}
	}
}

func (f *finder) relaxed(which, old string, to comparison, chosen func(memberRef) bool) bool {
	return f.propose(Relax, fmt.Sprintf("compare %s instead of %s in %s: %s", to.attribute, old, which, to.means)+f.derivedToo(old),
		f.here(f.changed(func(claim int, c *resourceapi.ResourceClaim) {
			for i := range c.Spec.Devices.Constraints {
				name, distinct := compile.Attribute(&c.Spec.Devices.Constraints[i])
				if name == old && !distinct && chosen(memberRef{claim, i}) {
					setAttribute(&c.Spec.Devices.Constraints[i], to.attribute, false)
				}
			}
			pruneDerived(c)
		})))
}

// drop leaves a constraint out.
func (f *finder) drop() {
	_, constraints := f.conflictMembers()
	for _, p := range constraints {
		name, _ := compile.Attribute(f.constraint(p))
		if f.propose(DropConstraint, fmt.Sprintf("leave constraint %d (%s) out: the devices need not be near each other then", p.index, name)+f.derivedToo(name),
			f.here(f.changed(func(claim int, c *resourceapi.ResourceClaim) {
				if claim == p.claim {
					c.Spec.Devices.Constraints = slices.Delete(c.Spec.Devices.Constraints, p.index, p.index+1)
					pruneDerived(c)
				}
			}))) {
			return
		}
	}
}
