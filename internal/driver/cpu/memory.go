// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Hugepages is an amount of one node's huge pages of one size.
type Hugepages struct {
	Node      int   `json:"node"`
	PageBytes int64 `json:"pageBytes"`
	Bytes     int64 `json:"bytes"`
}

// pool is the huge pages of one size on a node.
type pool struct {
	node      int
	pageBytes int64
}

func binary(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// hugepages takes what the allocation consumes of each size, from the nodes of
// the claim's CPUs first and then from the device's others.
func (p *planner) hugepages(a driver.Allocation, d *slicecodec.CPUDevice, beside []int) ([]Hugepages, error) {
	var plan []Hugepages
	sizes := slicecodec.HugepageCapacities()
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		q, ok := a.Consumed[name]
		if !ok || q.IsZero() {
			continue
		}
		size, want := sizes[name], q.Value()
		total := slicecodec.HugepagesOf(p.machine, d.Nodes, size)
		if want < 0 || want%size != 0 {
			return nil, fmt.Errorf("consumed capacity %s is %s: want whole pages of %s", name, q.String(), binary(size))
		}
		var parts []Hugepages
		free := int64(0)
		for _, node := range nearFirst(d.Nodes, beside) {
			here := pool{node, size}
			have := max(0, slicecodec.HugepagesOf(p.machine, []int{node}, size)-p.taken.pages[here])
			if take := min(have, want-free); take > 0 {
				parts = append(parts, Hugepages{Node: node, PageBytes: size, Bytes: take})
			}
			free += have
			if free >= want {
				break
			}
		}
		if free < want {
			return nil, fmt.Errorf("wants %s of %s of %s, of which %s are free: %s of its %s belong to other claims",
				q.String(), name, d, binary(free), binary(total-free), binary(total))
		}
		plan = append(plan, parts...)
	}
	for _, h := range plan {
		p.taken.pages[pool{h.Node, h.PageBytes}] += h.Bytes
	}
	return plan, nil
}

// nearFirst puts some of the nodes first.
func nearFirst(nodes, first []int) []int {
	all := slices.DeleteFunc(slices.Clone(nodes), func(n int) bool { return !slices.Contains(first, n) })
	for _, n := range nodes {
		if !slices.Contains(first, n) {
			all = append(all, n)
		}
	}
	return all
}

// nodesOf are the NUMA nodes of CPUs.
func (p *planner) nodesOf(cpus cpuset.CPUSet) []int {
	nodes := cpuset.New()
	for _, c := range p.machine.CPUs {
		if c.NUMANode != nil && cpus.Contains(c.ID) {
			nodes = nodes.Union(cpuset.New(*c.NUMANode))
		}
	}
	return nodes.List()
}

// mems are the nodes that memory shall come from: those of the CPUs, the nearest
// with memory for one that has none of its own (the kernel takes no cpuset.mems
// without any, kernel/cgroup/cpuset.c), and those with the claim's huge pages.
// Empty, which leaves the memory as it is, where that is unknown.
func (p *planner) mems(cpus cpuset.CPUSet, pages []Hugepages) cpuset.CPUSet {
	mems := cpuset.New()
	for _, c := range p.machine.CPUs {
		if !cpus.Contains(c.ID) {
			continue
		}
		if c.NUMANode == nil {
			return cpuset.New()
		}
		near := nearest(p.machine, *c.NUMANode, hasMemory)
		if near.IsEmpty() {
			return cpuset.New()
		}
		mems = mems.Union(near)
	}
	for _, h := range pages {
		mems = mems.Union(cpuset.New(h.Node))
	}
	return mems
}

func hasMemory(n model.NUMANode) bool { return n.MemoryBytes == nil || *n.MemoryBytes > 0 }

func hasCPUs(n model.NUMANode) bool { return !n.CPUs.IsEmpty() }

// nearest is the node itself where has is true of it, else those of which it is true
// that lie nearest; empty where there are none, or the distances are unknown.
func nearest(m *model.Machine, node int, has func(model.NUMANode) bool) cpuset.CPUSet {
	own := m.NUMANode(node)
	switch {
	case own == nil:
		return cpuset.New()
	case has(*own):
		return cpuset.New(node)
	}
	var found []int
	least := 0
	for _, n := range m.NUMANodes {
		distance, known := own.Distances[n.ID]
		if !known || !has(n) {
			continue
		}
		if len(found) == 0 || distance < least {
			found, least = nil, distance
		}
		if distance == least {
			found = append(found, n.ID)
		}
	}
	return cpuset.New(found...)
}
