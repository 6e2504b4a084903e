// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explaintest

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
)

// derive has requests derive what constraints compare: in place of what devices publish,
// or what nobody does.
func (r *random) derive(c *resourceapi.ResourceClaim) {
	if !r.on[derived] {
		return
	}
	// A pair of requests derives the same more often than chance has it.
	common := r.derivation()
	for i := range c.Spec.Devices.Requests {
		request := &c.Spec.Devices.Requests[i]
		if request.Exactly != nil {
			request.Exactly.DerivedAttributes = r.derivedOf(c, request.Name, request.Name, common)
			continue
		}
		for k := range request.FirstAvailable {
			s := &request.FirstAvailable[k]
			s.DerivedAttributes = r.derivedOf(c, request.Name, request.Name+"/"+s.Name, common)
		}
	}
}

// derivedOf are attributes that constraints on a request compare, each once.
func (r *random) derivedOf(c *resourceapi.ResourceClaim, request, name, common string) []resourceapi.DeviceDerivedAttribute {
	var all []resourceapi.DeviceDerivedAttribute
	for k := range c.Spec.Devices.Constraints {
		constraint := &c.Spec.Devices.Constraints[k]
		attribute, _ := compile.Attribute(constraint)
		known := slices.ContainsFunc(all, func(d resourceapi.DeviceDerivedAttribute) bool { return string(d.Name) == attribute })
		if known || !compile.Applies(constraint, request, &compile.Subrequest{Name: name}) || attribute != place && r.one(2) || r.one(8) {
			continue
		}
		expression := common
		if r.one(3) {
			expression = r.derivation()
		}
		all = append(all, resourceapi.DeviceDerivedAttribute{Name: resourceapi.FullyQualifiedName(attribute), Expression: expression})
	}
	return all
}

// derivation is an expression for a value: of each type, of several, of lists, and of
// some devices none.
func (r *random) derivation() string {
	if r.odd(failingSelectors, 2) {
		return pick(r,
			`device.attributes["resource.kubernetes.io"].pcieRoot`,
			`device.attributes["example.com"].rdma ? "fast" : "slow"`,
			`device.attributes["example.com"].mixed`,
			`device.attributes["gpu.example.com"].model`,
			`device.attributes["resource.kubernetes.io"].numaNode == 0 ? 1 : 10 / device.attributes["resource.kubernetes.io"].numaNode`,
		)
	}
	if r.odd(listsOn, 2) {
		return pick(r,
			`[device.driver, device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("")]`,
			`device.attributes["resource.kubernetes.io"].?numaNode.orValue(0) == 0 ? [0, 1] : [1, 2]`,
			`device.attributes["example.com"].?peers.orValue("none")`,
			`[semver("1.0.0"), semver("2.0.0")]`, `[true]`, `["1"].filter(x, x != "1")`,
		)
	}
	return pick(r,
		`device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("none")`,
		`device.attributes["resource.kubernetes.io"].?numaNode.orValue(7)`,
		`device.attributes["resource.kubernetes.io"].?numaNode.orValue(0) == 0 ? "near" : "far"`,
		`device.attributes["example.com"].?rdma.orValue(false)`,
		`device.attributes["example.com"].?mixed.orValue("1")`,
		`device.attributes["gpu.example.com"].?model.orValue("0")`,
		`device.driver`, `semver("1.0.0")`, `1`, `"same"`,
	)
}
