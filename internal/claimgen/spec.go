// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// The alternatives of a request with a fallback.
const (
	near = "near"
	far  = "far"
)

// Spec writes the claim. The error says what would be right; a *LimitError says
// how to split.
func Spec(o Options) (*resourceapi.ResourceClaimSpec, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	g := generator{o: o}
	for range o.parts() {
		g.part()
	}
	g.configure()
	if err := o.limits(&g.spec); err != nil {
		return nil, err
	}
	return &g.spec, nil
}

// generator holds what is written so far.
type generator struct {
	o    Options
	spec resourceapi.ResourceClaimSpec
	// units counts units, and with them the names of requests; cpus counts
	// requests for CPUs.
	units, cpus int
	// nics are the names of the requests for NICs, each for one interface where
	// those are named.
	nics []string
}

// part writes what is on one NUMA node: its pairs, then its CPUs.
func (g *generator) part() {
	parts := g.o.parts()
	gpus, nics, cpus := g.o.GPUs/parts, g.o.NICs/parts, g.o.CPUs/parts
	var members []string
	pairs := 1
	if g.o.Align == PCIe {
		pairs = max(1, min(gpus, nics))
		if gpus == 0 || nics == 0 {
			pairs = max(gpus, nics) // nothing to pair: one by one
		}
	}
	for range pairs {
		members = append(members, g.unit(gpus/max(1, pairs), nics/max(1, pairs))...)
	}
	if cpus > 0 {
		name := "cpu-" + strconv.Itoa(g.cpus)
		g.cpus++
		g.request(name, slicecodec.DriverCPU, 1, nil, cpuCapacity(cpus))
		members = append(members, name)
	}
	if g.o.Align == NUMA || cpus > 0 {
		g.match(slicecodec.AttrNUMANode, members)
	}
}

// unit writes GPUs and the NICs that belong to them, and returns what of it has
// to be on the NUMA node of the part.
func (g *generator) unit(gpus, nics int) []string {
	index := strconv.Itoa(g.units)
	g.units++
	gpu := "gpu-" + index
	// A constraint wants its attribute of every device that it is for, so GPUs
	// without a PCIe root need an alternative too.
	eitherGPU := g.o.Fallback != "" && g.o.Align == PCIe
	var nearby, all []string
	if gpus > 0 {
		nearby = append(nearby, g.devices(gpu, slicecodec.DriverGPU, gpus, g.gpuSelectors(), eitherGPU))
		all = append(all, gpu)
	}
	for _, r := range g.nicRequests("nic-"+index, nics) {
		nearby = append(nearby, g.devices(r.name, slicecodec.DriverNet, r.count, g.nicSelectors(), g.o.Fallback != ""))
		all = append(all, r.name)
		g.nics = append(g.nics, r.name)
	}
	if g.o.Align == NUMA || gpus == 0 {
		return nearby
	}
	g.match(slicecodec.AttrPCIeRoot, nearby)
	if eitherGPU && gpus == 1 && nics == 1 {
		// No two devices share an address: a GPU that could have a near NIC
		// elsewhere is not given a far one. Without this the allocator takes the
		// first GPU, and any NIC for it.
		g.match(slicecodec.AttrPCIBusID, []string{gpu + "/" + near, "nic-" + index + "/" + far})
	}
	if g.o.Fallback == NUMA {
		g.match(slicecodec.AttrNUMANode, all)
	}
	return []string{gpu}
}

// devices writes a request and returns its name for the constraint on what is
// near: of two alternatives that is the first.
func (g *generator) devices(name, class string, count int, selectors []resourceapi.DeviceSelector, either bool) string {
	if !either {
		g.request(name, class, count, selectors, nil)
		return name
	}
	r := resourceapi.DeviceRequest{Name: name}
	for _, alternative := range []string{near, far} {
		r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: alternative, DeviceClassName: class, Selectors: selectors,
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(count),
		})
	}
	g.spec.Devices.Requests = append(g.spec.Devices.Requests, r)
	return name + "/" + near
}

type nicRequest struct {
	name  string
	count int
}

// nicRequests is one request, or as many as there are NICs where each interface
// has a name of its own.
func (g *generator) nicRequests(name string, n int) []nicRequest {
	if n == 0 {
		return nil
	}
	if g.o.InterfacePrefix == "" || n == 1 {
		return []nicRequest{{name, n}}
	}
	var list []nicRequest
	for i := range n {
		list = append(list, nicRequest{name + "-" + strconv.Itoa(i), 1})
	}
	return list
}

func (g *generator) request(name, class string, count int, selectors []resourceapi.DeviceSelector, capacity *resourceapi.CapacityRequirements) {
	g.spec.Devices.Requests = append(g.spec.Devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, Selectors: selectors, Capacity: capacity,
		AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(count),
	}})
}

// match wants requests to share an attribute; one device shares it with itself.
func (g *generator) match(attribute resourceapi.FullyQualifiedName, requests []string) {
	if len(requests) < 2 && !g.several(requests) {
		return
	}
	g.spec.Devices.Constraints = append(g.spec.Devices.Constraints, resourceapi.DeviceConstraint{
		Requests: requests, MatchAttribute: ptr.To(attribute),
	})
}

// several says whether a single request is for several devices.
func (g *generator) several(requests []string) bool {
	for _, r := range g.spec.Devices.Requests {
		if len(requests) == 1 && r.Name == requests[0] && r.Exactly != nil {
			return r.Exactly.Count > 1
		}
	}
	return false
}
