// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// readCPUs fills in NUMA nodes and CPUs, and joins them: a CPU belongs to the
// node that lists it.
func (s *scan) readCPUs() {
	nodes, problems := sysfs.ReadNUMANodes(s.sys)
	s.add(problems)
	nodeOf := map[int]int{}
	for _, n := range nodes {
		s.parts.NUMANodes = append(s.parts.NUMANodes, model.NUMANode{
			ID: n.ID, CPUs: n.CPUs, MemoryBytes: n.MemoryBytes, Distances: n.Distances, Hugepages: hugepages(n),
		})
		for _, cpu := range n.CPUs.UnsortedList() {
			if other, twice := nodeOf[cpu]; twice {
				s.problem("devices/system/node", "nodes %d and %d both list CPU %d", min(other, n.ID), max(other, n.ID), cpu)
				continue
			}
			nodeOf[cpu] = n.ID
		}
	}
	cpus, problems := sysfs.ReadCPUs(s.sys)
	s.add(problems)
	kindOf := coreTypes(cpus)
	for _, c := range cpus {
		cpu := model.CPU{ID: c.ID, Online: c.Online, Core: coreID(c), L3: c.L3, Siblings: c.Siblings, Type: kindOf(c)}
		if node, ok := nodeOf[c.ID]; ok {
			cpu.NUMANode = &node
		}
		s.parts.CPUs = append(s.parts.CPUs, cpu)
	}
}

// coreID is nil without a package and a core. An unknown die or cluster counts as the
// first: they only distinguish cores of one package with the same core id.
func coreID(c sysfs.CPU) *model.CoreID {
	if c.Package == nil || c.Core == nil {
		return nil
	}
	return &model.CoreID{Package: *c.Package, Die: orZero(c.Die), Cluster: orZero(c.Cluster), Core: *c.Core}
}

func orZero(v *int) int {
	if v == nil {
		return 0
	}
	return *v
}

func hugepages(n sysfs.NUMANode) []model.HugepagePool {
	var pools []model.HugepagePool
	for _, p := range n.Hugepages {
		pools = append(pools, model.HugepagePool{PageBytes: p.PageBytes, Pages: p.Pages})
	}
	return pools
}

// efficientBelow is how much of the fastest core's capacity an efficiency core
// has at most, in per cent: Arm's little cores have about half, while cores of
// one kind differ by a few per cent at most.
const efficientBelow = 75

// coreTypes says how to tell kinds of cores apart: by the kernel's lists on x86,
// by capacity elsewhere. On a machine whose cores are alike none has a kind.
func coreTypes(cpus []sysfs.CPU) func(sysfs.CPU) model.CoreType {
	lists, most, least := map[string]bool{}, 0, 0
	for _, c := range cpus {
		lists[c.Kind] = c.Kind != ""
		if c.Capacity != nil {
			most = max(most, *c.Capacity)
			if least == 0 || *c.Capacity < least {
				least = *c.Capacity
			}
		}
	}
	efficient := func(capacity int) bool { return capacity*100 < most*efficientBelow }
	return func(c sysfs.CPU) model.CoreType {
		switch {
		case lists["cpu_core"] && lists["cpu_atom"] && c.Kind == "cpu_core":
			return model.PerformanceCore
		case lists["cpu_core"] && lists["cpu_atom"] && c.Kind == "cpu_atom":
			return model.EfficiencyCore
		case c.Capacity != nil && efficient(*c.Capacity):
			return model.EfficiencyCore
		case c.Capacity != nil && efficient(least):
			return model.PerformanceCore
		}
		return ""
	}
}
