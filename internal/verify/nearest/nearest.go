// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nearest

import (
	"cmp"
	"slices"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
)

// Machine is a machine with a cache of the classes of pairs. It is for
// one check of its pods, and not for use by several goroutines.
type Machine struct {
	*model.Machine
	classes map[[2]model.PCIAddress]affinity.Class
	nodes   map[deviceNode]affinity.Class
}

type deviceNode struct {
	device model.PCIAddress
	node   int
}

// New answers for a machine.
func New(m *model.Machine) *Machine {
	return &Machine{Machine: m, classes: map[[2]model.PCIAddress]affinity.Class{}, nodes: map[deviceNode]affinity.Class{}}
}

// Group are things of a pod that belong together: devices, and the CPUs of the
// containers that have them.
type Group struct {
	GPUs, NICs []model.PCIAddress
	// CPUs are empty where no container of the group has CPUs of its own.
	CPUs cpuset.CPUSet
	// Others are devices, and OtherCPUs CPUs, that the pod has besides: they are
	// given once.
	Others    []model.PCIAddress
	OtherCPUs cpuset.CPUSet
}

// Pair is how near two things are, and how near the machine could have given
// them: Could is Is where it could not have given a nearer pair.
type Pair struct {
	A model.PCIAddress
	// B is nil for the CPUs.
	B         *model.PCIAddress
	Is, Could affinity.Class
}

// Pairs compares what is with what could be. Of GPUs and NICs those are a pair
// that are each other's: every one of the more numerous kind with one of the
// other kind, which are shared out evenly, the nearest first. A pod of eight GPUs
// and eight NICs is near although the first GPU is far from the last NIC.
func (m *Machine) Pairs(g Group) []Pair {
	is := m.pairsOf(g.GPUs, g.NICs, m.nodesOf(g.CPUs))
	could := m.best(g, is)
	for _, kind := range []func(*pairs) *[]Pair{devices, gpuCPUs, nicCPUs} {
		now, then := *kind(&is), *kind(&could)
		for i := range now {
			now[i].Could = now[i].Is
			if nearer(then[i].Is, now[i].Is) {
				now[i].Could = then[i].Is
			}
		}
	}
	return slices.Concat(is.devices, is.gpuCPUs, is.nicCPUs)
}

// pairs are the pairs of one placement by kind, the nearest first.
type pairs struct{ devices, gpuCPUs, nicCPUs []Pair }

func devices(p *pairs) *[]Pair { return &p.devices }
func gpuCPUs(p *pairs) *[]Pair { return &p.gpuCPUs }
func nicCPUs(p *pairs) *[]Pair { return &p.nicCPUs }

func (p *pairs) all() []Pair { return slices.Concat(p.devices, p.gpuCPUs, p.nicCPUs) }

// pairsOf are the pairs of devices and of the CPUs of some nodes; no nodes, no
// CPUs.
func (m *Machine) pairsOf(gpus, nics []model.PCIAddress, nodes []int) pairs {
	var p pairs
	few, many := gpus, nics
	if len(nics) < len(gpus) {
		few, many = nics, gpus
	}
	score := func(a, b model.PCIAddress) int { return int(m.class(a, b)) }
	for _, s := range m.share(pool{few: few, many: many, fewNeed: m.makes(few), manyNeed: m.makes(many)}, score) {
		a, b := s.few, s.many
		if len(nics) < len(gpus) {
			a, b = b, a // a GPU is named before its NIC
		}
		p.devices = append(p.devices, Pair{A: a, B: &b, Is: m.class(a, b)})
	}
	if len(nodes) > 0 {
		p.gpuCPUs, p.nicCPUs = m.toNodes(gpus, nodes), m.toNodes(nics, nodes)
	}
	for _, list := range [][]Pair{p.devices, p.gpuCPUs, p.nicCPUs} {
		slices.SortStableFunc(list, func(a, b Pair) int { return cmp.Compare(rank(a.Is), rank(b.Is)) })
	}
	return p
}

func (m *Machine) toNodes(list []model.PCIAddress, nodes []int) []Pair {
	var out []Pair
	for _, a := range list {
		far := affinity.Self
		for _, n := range nodes {
			far = max(far, m.toNode(a, n))
		}
		out = append(out, Pair{A: a, Is: far})
	}
	return out
}

func (m *Machine) toNode(a model.PCIAddress, node int) affinity.Class {
	key := deviceNode{a, node}
	c, known := m.nodes[key]
	if !known {
		c = affinity.Between(m.Machine, affinity.Place{PCI: &a}, affinity.OfNode(node))
		m.nodes[key] = c
	}
	return c
}

func (m *Machine) class(a, b model.PCIAddress) affinity.Class {
	if b.Compare(a) < 0 {
		a, b = b, a
	}
	key := [2]model.PCIAddress{a, b}
	c, known := m.classes[key]
	if !known {
		c = affinity.Between(m.Machine, affinity.Place{PCI: &a}, affinity.Place{PCI: &b})
		m.classes[key] = c
	}
	return c
}

// nodesOf are the NUMA nodes of CPUs.
func (m *Machine) nodesOf(cpus cpuset.CPUSet) []int {
	var nodes []int
	for _, n := range m.NUMANodes {
		if !n.CPUs.Intersection(cpus).IsEmpty() {
			nodes = append(nodes, n.ID)
		}
	}
	return nodes
}

// rank orders classes. Below one root whose bridges are not known may be one
// switch: it is not called farther than that.
func rank(c affinity.Class) affinity.Class {
	if c == affinity.SameRoot {
		return affinity.PIX
	}
	return c
}

func nearer(a, b affinity.Class) bool { return rank(a) < rank(b) }
