// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// cpus starts a Node for each NUMA node, with its CPUs, who holds them, and
// its memory.
func (b *builder) cpus() {
	b.groups = b.o.CPUGroups
	if b.groups == nil {
		b.groups = groupsOf(b.m)
	}
	for _, n := range b.m.NUMANodes {
		b.nodes[n.ID] = b.node(n)
	}
	holder := map[int]string{}
	for _, g := range b.groups {
		for _, h := range b.claims.holders(DeviceID{slicecodec.DriverCPU, g.Device}) {
			key := b.claims.key(h)
			if h.CPUCount == 0 {
				h.CPUCount = g.Count // the whole device
			}
			if h.CPUs.IsEmpty() && h.CPUCount == g.Count && g.CPUs != nil {
				h.CPUs = *g.CPUs // all of them
			}
			for _, cpu := range h.CPUs.List() {
				holder[cpu] = key
			}
			b.hold(g, h, key)
		}
	}
	for _, n := range b.m.NUMANodes {
		all := slices.Clone(b.m.CPUs)
		kept := b.kept(n)
		for _, id := range kept.Difference(n.CPUs).List() {
			all = append(all, model.CPU{ID: id})
		}
		slices.SortStableFunc(all, func(a, b model.CPU) int { return cmp.Compare(a.ID, b.ID) })
		b.nodes[n.ID].Cores = cores(all, n.CPUs.Union(kept), holder, kept)
	}
}

// kept are the CPUs of a node that no claim can have: those of Options.Reserved,
// and those that the groups name, which a machine decoded from slices does not
// list.
func (b *builder) kept(n model.NUMANode) cpuset.CPUSet {
	kept := n.CPUs.Intersection(b.o.Reserved)
	for _, g := range b.groups {
		if g.Reserved != nil && g.NUMANode != nil && *g.NUMANode == n.ID {
			kept = kept.Union(*g.Reserved)
		}
	}
	return kept
}

// groupsOf is one group a NUMA node, as the driver publishes by default.
func groupsOf(m *model.Machine) []slicecodec.CPUGroup {
	var groups []slicecodec.CPUGroup
	for _, n := range m.NUMANodes {
		groups = append(groups, slicecodec.CPUGroup{
			Device: slicecodec.CPUGroupName(n.ID), NUMANode: ptr.To(n.ID), Count: n.CPUs.Size(), CPUs: ptr.To(n.CPUs),
		})
	}
	return groups
}

func (b *builder) node(n model.NUMANode) *Node {
	reserved := b.kept(n)
	cpus := n.CPUs.Union(reserved)
	node := &Node{
		ID: ptr.To(n.ID), CPUs: cpus.String(), CPUCount: cpus.Size(),
		Reserved: reserved.String(), ReservedCount: reserved.Size(),
		MemoryMiB: mebibytes(n.MemoryBytes), Distances: maps.Clone(n.Distances),
	}
	if n.CPUs.IsEmpty() && b.o.CPUCounts[n.ID] > 0 {
		node.CPUs, node.CPUCount = "", b.o.CPUCounts[n.ID]+reserved.Size()
	}
	if node.CPUCount == 0 {
		return node
	}
	for _, g := range b.groups {
		if !b.on(g, n) {
			continue
		}
		if node.CPUDevice != "" {
			node.CPUDevice = "" // several
			break
		}
		node.CPUDevice = g.Device
	}
	return node
}

// on says whether a group has CPUs of a node.
func (b *builder) on(g slicecodec.CPUGroup, n model.NUMANode) bool {
	switch {
	case g.NUMANode != nil:
		return *g.NUMANode == n.ID
	case g.CPUs != nil:
		return !g.CPUs.Intersection(n.CPUs).IsEmpty()
	}
	return n.Socket != nil && g.Socket != nil && *g.Socket == *n.Socket
}

// hold gives a claim's share of a group to the NUMA nodes it is on. Where only
// the number is known it stands with the first node of the group.
func (b *builder) hold(g slicecodec.CPUGroup, h Holder, key string) {
	for _, n := range b.m.NUMANodes {
		if !b.on(g, n) {
			continue
		}
		share := CPUHold{Claim: key, Device: g.Device, Count: h.CPUCount, CPUs: h.CPUs.String()}
		if inside := h.CPUs.Intersection(n.CPUs); !h.CPUs.IsEmpty() && g.NUMANode == nil {
			if inside.IsEmpty() {
				continue
			}
			share.Count, share.CPUs = inside.Size(), inside.String()
		}
		b.nodes[n.ID].addHold(share)
		if h.CPUs.IsEmpty() {
			return
		}
	}
}

// addHold adds to what the claim holds of the node already, as when each CPU is
// a device of its own.
func (n *Node) addHold(share CPUHold) {
	i := slices.IndexFunc(n.Holds, func(h CPUHold) bool { return h.Claim == share.Claim && h.Device != share.Device })
	if i < 0 {
		n.Holds = append(n.Holds, share)
		return
	}
	h := &n.Holds[i]
	h.Device, h.Count = "", h.Count+share.Count
	one, errOne := cpuset.Parse(h.CPUs)
	other, errOther := cpuset.Parse(share.CPUs)
	if h.CPUs = ""; errOne == nil && errOther == nil && one.Union(other).Size() == h.Count {
		h.CPUs = one.Union(other).String()
	}
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
	b.unplaced.Cores = cores(b.m.CPUs, set, nil, b.o.Reserved)
}

// cores groups CPUs by physical core, in the order of their first threads. A
// CPU whose core is unknown stands alone.
func cores(all []model.CPU, set cpuset.CPUSet, holder map[int]string, reserved cpuset.CPUSet) []Core {
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
			if reserved.Contains(cpu) {
				list[i].Reserved = append(list[i].Reserved, cpu)
			}
		}
		if slices.ContainsFunc(keys, func(k string) bool { return k != "" }) {
			list[i].Claims = keys
		}
	}
	return list
}
