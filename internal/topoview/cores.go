// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"maps"
	"slices"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// node starts a Node with its CPUs and memory.
func (b *builder) node(n model.NUMANode) *Node {
	node := &Node{
		ID: ptr.To(n.ID), CPUs: n.CPUs.String(), CPUCount: n.CPUs.Size(),
		MemoryMiB: mebibytes(n.MemoryBytes), Distances: maps.Clone(n.Distances),
	}
	if !n.CPUs.IsEmpty() {
		node.CPUDevice = slicecodec.CPUGroupName(n.ID)
	}
	id := DeviceID{Driver: slicecodec.DriverCPU, Name: slicecodec.CPUGroupName(n.ID)}
	holder := map[int]string{}
	for _, h := range b.claims.holders(id) {
		key := b.claims.key(h)
		if h.CPUs.IsEmpty() && h.CPUCount == n.CPUs.Size() {
			h.CPUs = n.CPUs // all of them
		}
		node.Holds = append(node.Holds, CPUHold{Claim: key, Count: h.CPUCount, CPUs: h.CPUs.String()})
		for _, cpu := range h.CPUs.List() {
			holder[cpu] = key
		}
	}
	node.Cores = cores(b.m.CPUs, n.CPUs, holder)
	return node
}

// looseCPUs puts online CPUs that no NUMA node lists into the group for none.
func (b *builder) looseCPUs() {
	var loose []int
	listed := cpuset.New()
	for _, n := range b.m.NUMANodes {
		listed = listed.Union(n.CPUs)
	}
	for _, c := range b.m.CPUs {
		if c.Online && !listed.Contains(c.ID) {
			loose = append(loose, c.ID)
		}
	}
	set := cpuset.New(loose...)
	b.unplaced.CPUs, b.unplaced.CPUCount = set.String(), set.Size()
	b.unplaced.Cores = cores(b.m.CPUs, set, nil)
}

// cores groups CPUs by physical core, in the order of their first threads. A
// CPU whose core is unknown stands alone.
func cores(all []model.CPU, set cpuset.CPUSet, holder map[int]string) []Core {
	var list []Core
	index := map[model.CoreID]int{}
	for _, c := range all {
		if !set.Contains(c.ID) {
			continue
		}
		if c.Core != nil {
			if i, seen := index[*c.Core]; seen {
				list[i].CPUs = append(list[i].CPUs, c.ID)
				continue
			}
			index[*c.Core] = len(list)
		}
		list = append(list, Core{CPUs: []int{c.ID}, L3: c.L3})
	}
	for i := range list {
		keys := make([]string, len(list[i].CPUs))
		for j, cpu := range list[i].CPUs {
			keys[j] = holder[cpu]
		}
		if slices.ContainsFunc(keys, func(k string) bool { return k != "" }) {
			list[i].Claims = keys
		}
	}
	return list
}
