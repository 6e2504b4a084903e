// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// near are the CPUs closest to the NICs and GPUs that belong to these CPUs: those
// of the claim that a constraint binds to the request, or else all of the claim,
// or else what its pods hold by other claims; empty where there are none, or their
// place is unknown.
func (p *planner) near(a driver.Allocation) cpuset.CPUSet {
	bound := p.boundTo(a.Request)
	var devices []driver.DeviceRef
	others := p.otherDevices(a.Pool)
	for _, r := range others {
		if len(bound) == 0 || slices.Contains(bound, resourceclaim.BaseRequestRef(r.Request)) {
			devices = append(devices, driver.DeviceRef{Driver: r.Driver, Device: r.Device})
		}
	}
	if len(others) == 0 {
		devices = p.claim.Beside
	}
	near := cpuset.New()
	for _, d := range devices {
		node := p.nodeOf(d)
		if node == nil {
			continue
		}
		for _, id := range nearest(p.machine, *node, hasCPUs).List() {
			near = near.Union(p.machine.NUMANode(id).CPUs)
		}
	}
	return near
}

// otherDevices are the claim's devices of other drivers on this node.
func (p *planner) otherDevices(pool string) []resourceapi.DeviceRequestAllocationResult {
	if p.claim.Object == nil || p.claim.Object.Status.Allocation == nil {
		return nil
	}
	var others []resourceapi.DeviceRequestAllocationResult
	for _, r := range p.claim.Object.Status.Allocation.Devices.Results {
		if r.Driver != slicecodec.DriverCPU && r.Pool == pool {
			others = append(others, r)
		}
	}
	return others
}

// boundTo are the requests that a constraint of the claim wants to be alike with
// this one.
func (p *planner) boundTo(request string) []string {
	if p.claim.Object == nil {
		return nil
	}
	var bound []string
	for _, c := range p.claim.Object.Spec.Devices.Constraints {
		var names []string
		for _, name := range c.Requests {
			names = append(names, resourceclaim.BaseRequestRef(name))
		}
		if c.MatchAttribute != nil && slices.Contains(names, resourceclaim.BaseRequestRef(request)) {
			bound = append(bound, names...)
		}
	}
	return bound
}

// nodeOf is the NUMA node of a NIC or GPU; nil where it is unknown.
func (p *planner) nodeOf(d driver.DeviceRef) *int {
	if node, ok := p.claim.Nodes[d]; ok {
		return &node
	}
	switch d.Driver {
	case slicecodec.DriverNet:
		if n := slicecodec.FindNIC(p.machine, d.Device); n != nil {
			return n.NUMANode
		}
	case slicecodec.DriverGPU:
		if g := slicecodec.FindGPU(p.machine, d.Device); g != nil {
			return g.NUMANode
		}
	}
	return nil
}
