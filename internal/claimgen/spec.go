// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package claimgen writes claims for aligned devices: which requests, in which
// order, and which constraints hold them together. It is pure; whether a claim
// fits anywhere is package allocation's to say.
//
// What it has learnt of the scheduler's allocator: requests of a pair stand
// beside each other, because constraints are tested as devices are placed;
// selectors ask whether an attribute is there before they read it; a request
// for CPUs says how many, because one that does not takes them all.
package claimgen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Spec writes the claim. The error says what would be right; a *LimitError says
// how to split.
func Spec(o Options) (*resourceapi.ResourceClaimSpec, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.tooMany(); err != nil {
		return nil, err
	}
	g := generator{o: o, alternatives: o.alternatives()}
	for range o.parts() {
		g.part()
	}
	g.gpusTogether()
	g.nicsApart()
	if err := g.configure(); err != nil {
		return nil, err
	}
	if err := g.configureGPUs(); err != nil {
		return nil, err
	}
	if err := o.checkLimits(&g.spec); err != nil {
		return nil, err
	}
	return &g.spec, nil
}

// generator holds what is written so far.
type generator struct {
	o    Options
	spec resourceapi.ResourceClaimSpec
	// alternatives are those of requests with a fallback; none without one.
	alternatives []string
	// units counts units, and with them the names of requests; cpus counts
	// requests for CPUs.
	units, cpus int
	// nics are the names of the requests for NICs, each for one interface where
	// those are named.
	nics []string
	// gpus are the names of the requests for GPUs.
	gpus []string
}

// part writes what is on one NUMA node or socket: its pairs, then its CPUs.
func (g *generator) part() {
	parts := g.o.parts()
	gpus, nics, cpus := g.o.GPUs/parts, g.o.NICs/parts, g.o.CPUs/parts
	var members []string
	first := len(g.nics)
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
		g.request(name, exact{class: slicecodec.DriverCPU, count: 1, capacity: cpuCapacity(cpus)})
		members = append(members, name)
	}
	switch {
	case g.o.Align != PCIe:
		g.match(g.o.attribute(), members)
	case cpus > 0 && g.o.besideNICs():
		g.match(slicecodec.AttrLegacyNUMANode, append(slices.Clone(g.nics[first:]), members[len(members)-1]))
	case parts > 1 && g.o.besideNICs():
		g.match(slicecodec.AttrLegacyNUMANode, slices.Clone(g.nics[first:]))
	case cpus > 0 || parts > 1:
		g.match(slicecodec.AttrNUMANode, members)
	}
}

// attribute is what the devices of a part share that is aligned as a whole.
// Where no GPU is among them, their NUMA node has a name that more drivers know.
func (o *Options) attribute() resourceapi.FullyQualifiedName {
	if o.Align == NUMA && o.GPUs == 0 {
		return slicecodec.AttrLegacyNUMANode
	}
	return attributes[o.Align]
}

// besideNICs says whether CPUs are held to NICs: NICs that share the PCIe root of
// their GPUs, or fall back to their NUMA node, are where the GPUs are. Every
// release of DRANET and dra-driver-cpu publishes the NUMA node of NICs and of CPUs by
// one name, while NVIDIA's driver before v0.5.0 and other vendors' publish none of
// GPUs.
func (o *Options) besideNICs() bool {
	if o.NICs == 0 {
		return false
	}
	last := NUMA
	if n := len(o.Fallback); n > 0 {
		last = o.Fallback[n-1]
	}
	return last == NUMA || o.GPUs == 0 || o.lacking(NUMA)
}

// unit writes GPUs and the NICs that belong to them, and returns what of it has
// to be where the part is.
func (g *generator) unit(gpus, nics int) []string {
	index := strconv.Itoa(g.units)
	g.units++
	var all []request
	if gpus > 0 {
		// A constraint wants its attribute of every device that it is for, so GPUs
		// without a PCIe root need an alternative too.
		all = append(all, g.devices("gpu-"+index, exact{g.o.Class(), gpus, g.gpuSelectors(), g.o.gpuCapacity()}, g.o.Align == PCIe))
		g.gpus = append(g.gpus, all[0].name)
	}
	for _, r := range g.nicRequests("nic-"+index, nics) {
		all = append(all, g.devices(r.name, exact{g.o.nicClass(), r.count, g.nicSelectors(), g.o.nicCapacity()}, true))
		g.nics = append(g.nics, r.name)
	}
	own := g.upTo(0, all)
	if g.o.Align == PCIe && gpus > 0 {
		g.match(slicecodec.AttrPCIeRoot, own)
		if gpus == 1 && nics == 1 {
			g.nearestFirst(all[0], all[1])
		}
		own = []string{all[0].name}
	}
	for i, level := range g.o.Fallback {
		if level != Any {
			g.match(attributes[level], g.upTo(i+1, all))
		}
	}
	return own
}

// nearestFirst has the allocator pass over a GPU whose NIC is gone while another
// one has its own: no two devices share an address, so a GPU's alternative is
// never had with a farther one of the NIC. Without this the allocator takes the
// first GPU, and any NIC for it.
func (g *generator) nearestFirst(gpu, nic request) {
	for i := range g.alternatives {
		if i > 0 {
			g.match(slicecodec.AttrPCIBusID, append(g.upTo(i-1, []request{gpu}), resourceclaim.CreateSubRequestRef(nic.name, g.alternatives[i])))
		}
	}
}

// upTo names the alternatives of requests down to a level; a request by itself
// where these are all it has.
func (g *generator) upTo(level int, requests []request) []string {
	var names []string
	for _, r := range requests {
		if !r.either || level == len(g.alternatives)-1 {
			names = append(names, r.name)
			continue
		}
		for _, alternative := range g.alternatives[:level+1] {
			names = append(names, resourceclaim.CreateSubRequestRef(r.name, alternative))
		}
	}
	return names
}

// request is a request that is written. either is true where it has
// alternatives.
type request struct {
	name   string
	either bool
}

// exact is what a request, or each of its alternatives, is for.
type exact struct {
	class     string
	count     int
	selectors []resourceapi.DeviceSelector
	capacity  *resourceapi.CapacityRequirements
}

// devices writes a request, with the alternatives where it is to have them and
// there is a fallback.
func (g *generator) devices(name string, e exact, either bool) request {
	if either = either && len(g.alternatives) > 0; !either {
		g.request(name, e)
		return request{name: name}
	}
	r := resourceapi.DeviceRequest{Name: name}
	for _, alternative := range g.alternatives {
		r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: alternative, DeviceClassName: e.class, Selectors: e.selectors, Capacity: e.capacity,
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(e.count),
		})
	}
	g.spec.Devices.Requests = append(g.spec.Devices.Requests, r)
	return request{name: name, either: true}
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

func (g *generator) request(name string, e exact) {
	g.spec.Devices.Requests = append(g.spec.Devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: e.class, Selectors: e.selectors, Capacity: e.capacity,
		AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(e.count),
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

func selectors(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

// guarded compares an attribute where the device has it: reading one that is
// absent fails the allocation.
func guarded(attribute, comparison string) string {
	domain, name, _ := strings.Cut(attribute, "/")
	return fmt.Sprintf("%q in device.attributes[%q] && device.attributes[%q].%s%s", name, domain, domain, name, comparison)
}

func (g *generator) nicSelectors() []resourceapi.DeviceSelector {
	var all []resourceapi.DeviceSelector
	if !g.o.WithoutRDMA {
		all = selectors(guarded(slicecodec.AttrRDMA, ""))
	}
	if len(g.o.VF) > 0 {
		all = append(all, selectors(guarded(slicecodec.AttrIsVF, ""))...)
	}
	return all
}

func (g *generator) gpuSelectors() []resourceapi.DeviceSelector {
	var all []resourceapi.DeviceSelector
	if g.o.GPUProduct != "" {
		all = append(all, selectors(guarded(g.o.gpus().product, " == "+strconv.Quote(g.o.GPUProduct)))...)
	}
	if g.o.MIGProfile != "" {
		all = append(all, selectors(guarded(attrProfile, " == "+strconv.Quote(g.o.MIGProfile)))...)
	}
	if kind, _ := g.o.gpuShare(); kind == Memory {
		// A device that is not shared is taken whole for whatever part of its memory.
		all = append(all, selectors("device.allowMultipleAllocations")...)
	}
	return all
}

func cpuCapacity(n int) *resourceapi.CapacityRequirements {
	return &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
		slicecodec.CapacityCPU: *resource.NewQuantity(int64(n), resource.DecimalSI),
	}}
}
