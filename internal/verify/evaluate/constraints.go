// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// constraints checks the constraints of a claim by where its devices are.
func (e *evaluator) constraints(claim expect.Claim) {
	for _, k := range claim.Constraints {
		f := Finding{Claim: claim.Name}
		var attribute string
		switch {
		case k.MatchAttribute != nil:
			attribute = string(*k.MatchAttribute)
			f.What = "same " + short(attribute)
		case k.DistinctAttribute != nil:
			attribute = string(*k.DistinctAttribute)
			f.What = "distinct " + short(attribute)
		default:
			f.State, f.Code, f.What, f.Why = StateUnknown, NotRead, "a constraint", "it is of a kind that is not known here"
			e.add(f)
			continue
		}
		requests := k.Requests
		if len(requests) == 0 { // no list means every request
			requests = requestsOf(claim)
		}
		f.What = strings.Join(requests, ", ") + ": " + f.What
		e.constraint(&f, claim, requests, attribute, k.MatchAttribute != nil)
		e.add(f)
	}
}

func short(attribute string) string { return attribute[strings.LastIndexByte(attribute, '/')+1:] }

func requestsOf(claim expect.Claim) []string {
	names := map[string]bool{}
	for _, d := range claim.Devices {
		names[resourceclaim.BaseRequestRef(d.Request)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// named says whether a constraint's list has a result's request.
func named(requests []string, request string) bool {
	return slices.Contains(requests, request) || slices.Contains(requests, resourceclaim.BaseRequestRef(request))
}

// valued is what the kernel says of one device under a constraint.
type valued struct {
	device *expect.Device
	values []string
	// spread is true where several values are one answer: CPUs have several
	// roots near them, of which any may match.
	spread bool
	// by says by what the values are the device's, where they are not its function's;
	// it begins with a space.
	by string
}

func (e *evaluator) constraint(f *Finding, claim expect.Claim, requests []string, attribute string, match bool) {
	var list []valued
	for i := range claim.Devices {
		d := &claim.Devices[i]
		if d.Admin || !named(requests, d.Request) {
			continue
		}
		v, why := e.underConstraint(claim, d, attribute)
		if why != "" {
			f.State, f.Why = StateNote, why
			return
		}
		if len(v.values) == 0 {
			f.State, f.Code, f.Why = StateUnknown, NotRead, fmt.Sprintf("the kernel does not say it of %s (%s)", d.Name, d.Request)
			return
		}
		list = append(list, v)
	}
	var texts []string
	for _, v := range list {
		texts = append(texts, fmt.Sprintf("%s %s%s", v.device.Request, strings.Join(v.values, " or "), v.by))
	}
	f.State, f.Why = StateOK, strings.Join(texts, ", ")
	holds := allSame(list)
	if !match {
		holds = allDistinct(list)
	}
	switch {
	case holds:
	case match && publishedMatch(list, attribute):
		f.Why += ": near enough by what the drivers publish as lists"
	default:
		relation := "distinct"
		if match {
			relation = "the same"
		}
		f.wrong(ConstraintBroken, f.Why, Difference{Of: strings.Join(requests, ", "), Attribute: attribute, Claimed: relation, Observed: f.Why})
	}
}

func allSame(list []valued) bool {
	if len(list) == 0 {
		return true
	}
	common := list[0].values
	for _, v := range list {
		if len(v.values) > 1 && !v.spread {
			return false // CPUs of two nodes are on neither
		}
		common = intersect(common, v.values)
	}
	return len(common) > 0
}

func allDistinct(list []valued) bool {
	for i, a := range list {
		for _, b := range list[i+1:] {
			if len(intersect(a.values, b.values)) > 0 {
				return false
			}
		}
	}
	return true
}

func intersect(a, b []string) []string {
	var both []string
	for _, v := range a {
		if slices.Contains(b, v) {
			both = append(both, v)
		}
	}
	return both
}

// publishedMatch says whether devices whose drivers publish lists (near NUMA
// nodes, KEP-6072) match by those, while each is where its list begins or says.
func publishedMatch(list []valued, attribute string) bool {
	lists := false
	var common []string
	for i, v := range list {
		published, isList := v.device.Values(attribute)
		lists = lists || isList
		if len(intersect(published, v.values)) != len(v.values) {
			return false
		}
		if i == 0 {
			common = published
		}
		common = intersect(common, published)
	}
	return lists && len(common) > 0
}

// fromKernel says whether the kernel has a value for an attribute.
func fromKernel(attribute string) bool {
	return slices.Contains([]string{
		slicecodec.AttrPCIeRoot, slicecodec.AttrPCIBusID, slicecodec.AttrNUMANode, slicecodec.AttrLegacyNUMANode,
		slicecodec.AttrSocket, slicecodec.AttrCPUNUMANode, slicecodec.AttrL3,
	}, attribute)
}

func (e *evaluator) valueOf(claim string, d *expect.Device, attribute string) valued {
	v := valued{device: d}
	cpus := cpuset.New()
	var pci *model.PCIAddress
	for _, p := range e.places[claim][d.Request] {
		if p.device == d {
			pci, cpus = p.pci, cpus.Union(p.cpus)
		}
	}
	if !cpus.IsEmpty() {
		v.values, v.spread = e.cpuValues(cpus, attribute)
		return v
	}
	if pci == nil {
		return v
	}
	f := e.m.Function(*pci)
	if f == nil {
		return v
	}
	switch attribute {
	case slicecodec.AttrPCIeRoot:
		v.values, v.by = e.rootOf(d, f)
	case slicecodec.AttrPCIBusID:
		v.values = []string{pci.String()}
	case slicecodec.AttrNUMANode, slicecodec.AttrLegacyNUMANode, slicecodec.AttrCPUNUMANode:
		if f.NUMANode != nil {
			v.values = []string{strconv.Itoa(*f.NUMANode)}
		}
	case slicecodec.AttrSocket:
		if socket := e.m.Socket(f.NUMANode); socket != nil {
			v.values = []string{strconv.Itoa(*socket)}
		}
	}
	return v
}

// cpuValues are what the kernel says of a set of CPUs.
func (e *evaluator) cpuValues(cpus cpuset.CPUSet, attribute string) (values []string, spread bool) {
	nodes := e.nodesOf(cpus)
	switch attribute {
	case slicecodec.AttrNUMANode, slicecodec.AttrLegacyNUMANode, slicecodec.AttrCPUNUMANode:
		return numbers(nodes), false
	case slicecodec.AttrPCIeRoot:
		for _, r := range e.m.Roots {
			if r.NUMANode != nil && nodes.Contains(*r.NUMANode) {
				values = append(values, r.Name)
			}
		}
		return values, true
	}
	var ids []int
	for _, cpu := range e.m.CPUs {
		switch {
		case !cpus.Contains(cpu.ID):
		case attribute == slicecodec.AttrSocket && cpu.Core != nil:
			ids = append(ids, cpu.Core.Package)
		case attribute == slicecodec.AttrL3 && cpu.L3 != nil:
			ids = append(ids, *cpu.L3)
		}
	}
	return numbers(cpuset.New(ids...)), false
}

func numbers(set cpuset.CPUSet) []string {
	var texts []string
	for _, n := range set.List() {
		texts = append(texts, strconv.Itoa(n))
	}
	return texts
}
