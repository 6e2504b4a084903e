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
			ID: n.ID, CPUs: n.CPUs, MemoryBytes: n.MemoryBytes, Distances: n.Distances,
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
	for _, c := range cpus {
		cpu := model.CPU{ID: c.ID, Online: c.Online, Core: coreID(c), L3: c.L3, Siblings: c.Siblings}
		if node, ok := nodeOf[c.ID]; ok {
			cpu.NUMANode = &node
		}
		s.parts.CPUs = append(s.parts.CPUs, cpu)
	}
}

// coreID is nil without a package and a core. Die and cluster only tell apart
// what those two leave equal, so an unknown one counts as the first.
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
