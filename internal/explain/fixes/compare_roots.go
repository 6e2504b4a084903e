// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// roots compares PCIe roots where a constraint compares the NUMA node of devices that do
// not tell it, as GPUs of NVIDIA's driver before v0.5.0: such a device is held to one that
// tells both, a NIC, and that one to the rest.
func (f *finder) roots() {
	if f.cause != reason.AttributeAbsent && f.cause != reason.AttributeUnknown {
		return
	}
	_, constraints := f.conflictMembers()
	for _, p := range constraints {
		old, distinct := compile.Attribute(f.constraint(p))
		if distinct || old != slicecodec.AttrNUMANode && old != slicecodec.AttrLegacyNUMANode {
			continue
		}
		if slices.ContainsFunc([]string{old, slicecodec.AttrLegacyNUMANode, slicecodec.AttrNUMANode}, func(node string) bool { return f.rootsBy(p, old, node) }) {
			return
		}
	}
}

// rootsBy is roots with a NUMA node of a certain name, for this constraint, or for all of
// the claim that compare the same.
func (f *finder) rootsBy(p memberRef, old, node string) bool {
	one, ok := f.byRoot(p, node)
	if !ok {
		return false
	}
	if f.rewritten(p.claim, map[int][]resourceapi.DeviceConstraint{p.index: one}, fmt.Sprintf("constraint %d", p.index), old) {
		return true
	}
	all := map[int][]resourceapi.DeviceConstraint{}
	for i := range f.claims[p.claim].Spec.Devices.Constraints {
		other := memberRef{p.claim, i}
		if name, distinct := compile.Attribute(f.constraint(other)); distinct || name != old {
			continue
		}
		if parts, ok := f.byRoot(other, node); ok {
			all[i] = parts
		}
	}
	return len(all) > 1 && f.rewritten(p.claim, all, "all constraints on it", old)
}

// byRoot is what stands for a constraint: the requests without the NUMA node share the
// PCIe root of one that has it, and those that have it their NUMA node.
func (f *finder) byRoot(p memberRef, node string) ([]resourceapi.DeviceConstraint, bool) {
	var without, with []string
	partner := ""
	for i := range f.a.Claims[p.claim].Requests {
		r := &f.a.Claims[p.claim].Requests[i]
		if !slices.ContainsFunc(r.Alternatives, func(x compile.Alternative) bool { return compile.Applies(f.constraint(p), r.Name, &x.Subrequest) }) {
			continue
		}
		if !f.tells(r, node) {
			without = append(without, r.Name)
			continue
		}
		with = append(with, r.Name)
		if partner == "" && f.tells(r, slicecodec.AttrPCIeRoot) {
			partner = r.Name
		}
	}
	if len(without) == 0 || partner == "" {
		return nil, false
	}
	parts := []resourceapi.DeviceConstraint{matching(slicecodec.AttrPCIeRoot, append(without, partner))}
	if len(with) > 1 {
		parts = append(parts, matching(node, with))
	}
	return parts, true
}

// tells says whether any device that is free for a request has one value of an attribute.
func (f *finder) tells(r *compile.Request, attribute string) bool {
	for i := range r.Alternatives {
		for d, why := range r.Alternatives[i].Why {
			if why.Obstacle != compile.None {
				continue
			}
			if a, err := f.a.Attribute(&r.Alternatives[i], d, attribute); a != nil && err == nil {
				if _, list := compile.Values(a); !list {
					return true
				}
			}
		}
	}
	return false
}

// rewritten proposes other constraints in the place of some of a claim.
func (f *finder) rewritten(claim int, parts map[int][]resourceapi.DeviceConstraint, which, old string) bool {
	var words []string
	for _, c := range parts[slices.Min(slices.Collect(maps.Keys(parts)))] {
		words = append(words, fmt.Sprintf("%s of %s", *c.MatchAttribute, strings.Join(c.Requests, ", ")))
	}
	claims := f.changed(func(i int, c *resourceapi.ResourceClaim) {
		if i != claim {
			return
		}
		var all []resourceapi.DeviceConstraint
		for k := range c.Spec.Devices.Constraints {
			if instead, ok := parts[k]; ok {
				all = append(all, instead...)
			} else {
				all = append(all, c.Spec.Devices.Constraints[k])
			}
		}
		c.Spec.Devices.Constraints = all
		pruneDerived(c)
	})
	if len(claims[claim].Spec.Devices.Constraints) > resourceapi.DeviceConstraintsMaxSize {
		return false
	}
	like := ""
	if len(parts) > 1 {
		like = ", and so in each"
	}
	return f.propose(Relax, fmt.Sprintf("compare %s instead of %s in %s%s: devices below one root are on one NUMA node",
		strings.Join(words, " and "), old, which, like), f.here(claims))
}

func matching(attribute string, requests []string) resourceapi.DeviceConstraint {
	return resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)), Requests: requests}
}
