// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// Component is something of the pod: a device, or where a container runs.
type Component struct {
	// Name is the pod's: an interface, a device file, or the container's CPUs.
	Name string
	Kind expect.Kind
	// Claim, Request and Device say which claim it is of; empty for what is of no
	// claim.
	Claim, Request, Device string
	// Resource is the extended resource that a container of the pod has the GPU
	// of, without a claim; empty for anything else.
	Resource string
	PCI      *model.PCIAddress
	// Root is empty where not known.
	Root string
	// RDMA is the file of its RDMA device; empty without one.
	RDMA string
	// CPUs and Mems are a container's; Container says whose.
	CPUs, Mems cpuset.CPUSet
	Container  string
	// Nodes are the NUMA nodes it is on.
	Nodes cpuset.CPUSet
}

// virtual says that it is nowhere on the machine.
func (t Component) virtual() bool { return t.Kind == expect.NIC && t.PCI == nil }

// Pair is how near two components are.
type Pair struct {
	A, B  string
	Class affinity.Class
	// Nearest is the nearest that the machine could have given; 0 where that is
	// not computed, as for components of no claim.
	Nearest affinity.Class
	// a and b are the components themselves.
	a, b *Component
}

// farther says whether the machine could have given a nearer one.
func (p Pair) farther() bool { return p.Nearest != 0 && p.Nearest < p.Class }

// of says whether the pair is a claim's.
func (p Pair) of(claim string) bool { return p.a.Claim == claim || p.b.Claim == claim }

// findComponents lists what is in the pod: GPUs, NICs, then containers' CPUs.
func (e *evaluator) findComponents() {
	for _, kind := range []expect.Kind{expect.GPU, expect.NIC} {
		var list []Component
		for _, t := range e.devicesFound() {
			if t.Kind == kind {
				list = append(list, t)
			}
		}
		slices.SortStableFunc(list, func(a, b Component) int { return strings.Compare(a.PCI.String(), b.PCI.String()) })
		e.components = append(e.components, list...)
	}
	e.components = append(e.components, e.virtualFound()...)
	for _, container := range e.observed.Containers {
		if container.Err != nil || container.GrantedErr != nil {
			continue
		}
		t := Component{
			Name: container.Name + " CPUs", Kind: expect.CPUs, Container: container.Name,
			CPUs: container.Granted.CPUs, Mems: container.Granted.Mems, Nodes: e.nodesOf(container.Granted.CPUs),
		}
		for _, claim := range e.expected.Claims {
			for _, d := range claim.Devices {
				if p := e.expectedContainer(container.ID); p != nil && d.Kind == expect.CPUs && p.Names(claim.Name, d.Request) {
					t.Claim, t.Request, t.Device = claim.Name, d.Request, d.Name
				}
			}
		}
		e.components = append(e.components, t)
	}
}

// devicesFound joins interfaces and device files of one PCI function.
func (e *evaluator) devicesFound() []Component {
	var list []Component
	at := map[model.PCIAddress]int{}
	component := func(a model.PCIAddress, kind expect.Kind) *Component {
		i, ok := at[a]
		if !ok {
			i = len(list)
			at[a] = i
			list = append(list, e.component(a, kind))
		}
		return &list[i]
	}
	if !e.expected.HostNetwork {
		for _, i := range e.observed.Network.Interfaces {
			if i.PCI != nil {
				component(*i.PCI, expect.NIC).addName(i.Name)
			}
		}
	}
	for _, container := range e.observed.Containers {
		for _, f := range container.Files {
			switch {
			case f.Kind == collect.FileGPU || isGPU(e.m.Function(f.PCI)):
				component(f.PCI, expect.GPU).addName(f.Path)
			default:
				component(f.PCI, expect.NIC).RDMA = f.Path
			}
		}
	}
	for i := range list {
		if list[i].Name == "" {
			list[i].Name = list[i].RDMA
		}
	}
	return list
}

// virtualFound lists claimed interfaces that are no PCI function: they have no
// place, and are the pod's all the same.
func (e *evaluator) virtualFound() []Component {
	var list []Component
	for _, claim := range e.expected.Claims {
		for i := range claim.Devices {
			d := &claim.Devices[i]
			if d.Kind != expect.NIC || d.Function() != nil || d.Admin {
				continue
			}
			if name, _ := e.interfaceOf(d); name != "" {
				list = append(list, Component{Name: name, Kind: expect.NIC, Claim: claim.Name, Request: d.Request, Device: d.Name})
			}
		}
	}
	return list
}

// addName keeps the shorter of the names of one function, such as card0 of
// card0 and renderD128.
func (t *Component) addName(name string) {
	if t.Name == "" || len(name) < len(t.Name) || len(name) == len(t.Name) && name < t.Name {
		t.Name = name
	}
}

func (e *evaluator) component(a model.PCIAddress, kind expect.Kind) Component {
	t := Component{Kind: kind, PCI: &a}
	if f := e.m.Function(a); f != nil {
		t.Root = f.Root
		if f.NUMANode != nil {
			t.Nodes = cpuset.New(*f.NUMANode)
		}
	}
	for _, claim := range e.expected.Claims {
		for _, d := range claim.Devices {
			if function := d.Function(); function != nil && *function == a && !d.Admin {
				t.Claim, t.Request, t.Device = claim.Name, d.Request, d.Name
			}
		}
	}
	if t.Claim == "" && kind == expect.GPU {
		t.Resource = e.resourceOf(a)
	}
	return t
}

// pairsOf classifies every two components that have a place, but containers among
// each other.
func pairsOf(m *model.Machine, components []Component) []Pair {
	var pairs []Pair
	for i := range components {
		for j := i + 1; j < len(components); j++ {
			a, b := &components[i], &components[j]
			if a.Kind == expect.CPUs && b.Kind == expect.CPUs || a.virtual() || b.virtual() {
				continue
			}
			pairs = append(pairs, Pair{A: a.Name, B: b.Name, Class: classOf(m, *a, *b), a: a, b: b})
		}
	}
	return pairs
}

// classOf is the farthest of the classes of all nodes that CPUs are on.
func classOf(m *model.Machine, a, b Component) affinity.Class {
	far := affinity.Class(0)
	for _, pa := range placesOf(a) {
		for _, pb := range placesOf(b) {
			far = max(far, affinity.Between(m, pa, pb))
		}
	}
	if far == 0 {
		return affinity.Unknown
	}
	return far
}

func placesOf(t Component) []affinity.Place {
	if t.PCI != nil {
		return []affinity.Place{{PCI: t.PCI}}
	}
	var places []affinity.Place
	for _, node := range t.Nodes.List() {
		places = append(places, affinity.OfNode(node))
	}
	return places
}
