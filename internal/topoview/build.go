// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"slices"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/plural"
)

// Build arranges a machine. The machine is not changed.
func Build(m *model.Machine, o Options) *Topology {
	m = withoutTwins(m)
	b := &builder{m: m, o: o, nodes: map[int]*Node{}, unplaced: &Node{}, claims: newClaims(o.Holders, o.Plugins)}
	b.partsByFunction()
	b.cpus()
	b.looseCPUs()
	b.placeRoots()
	b.placeRootless()

	t := &Topology{
		APIVersion: APIVersion, Kind: Kind,
		Name: m.Name, Source: o.Source, Architecture: m.Architecture, HoldersKnown: o.HoldersKnown,
	}
	if o.Name != "" {
		t.Name = o.Name
	}
	if t.Name == "" {
		t.Name = "machine"
	}
	b.sockets(t)
	if len(b.unplaced.Cores)+len(b.unplaced.Roots)+len(b.unplaced.Devices) > 0 {
		t.Unplaced = b.unplaced
	}
	t.Claims = b.claims.list(t, b.groups)
	t.Counts = b.counts(t)
	t.Capacity = t.freeCapacity()
	t.Notes = append(slices.Clone(o.Notes), b.notes(t)...)
	return t
}

// withoutTwins is the machine without the devices that are a NIC whole which is there in
// shares as well: the two are one piece of hardware.
func withoutTwins(m *model.Machine) *model.Machine {
	twins := map[model.DeviceID]bool{}
	for _, n := range m.NICs {
		if n.Share != nil && n.Share.AlsoExclusive {
			twins[slicecodec.TwinID(slicecodec.IDOfNIC(n))] = true
		}
	}
	if len(twins) == 0 {
		return m
	}
	once := *m
	once.NICs = slices.DeleteFunc(slices.Clone(m.NICs), func(n model.NIC) bool { return twins[slicecodec.IDOfNIC(n)] })
	return &once
}

// builder holds what Build has arranged so far.
type builder struct {
	m        *model.Machine
	o        Options
	nodes    map[int]*Node
	unplaced *Node
	claims   *claims
	groups   []slicecodec.CPUGroup
	parts    map[model.PCIAddress][]DeviceID
	// rootCount is the number of roots that lead to a device.
	rootCount int
}

// place is where things of a NUMA node go; nil is the group for none.
func (b *builder) place(id *int) *Node {
	if id != nil && b.nodes[*id] != nil {
		return b.nodes[*id]
	}
	return b.unplaced
}

// sockets groups the nodes by the packages of their CPUs, or by the
// socket of the node itself where those are not listed. Nodes with neither
// CPUs nor devices are summed up.
func (b *builder) sockets(t *Topology) {
	var bare []model.NUMANode
	packages := b.packages()
	for _, n := range b.m.NUMANodes {
		node := b.nodes[n.ID]
		if node.CPUCount == 0 && len(b.m.CPUs) > 0 && len(node.Roots)+len(node.Devices) == 0 {
			bare = append(bare, n)
			continue
		}
		ids := packages[n.ID]
		if len(ids) == 0 && n.Socket != nil {
			ids = []int{*n.Socket}
		}
		i := slices.IndexFunc(t.Sockets, func(s Socket) bool { return slices.Equal(s.IDs, ids) })
		if i < 0 {
			i = len(t.Sockets)
			t.Sockets = append(t.Sockets, Socket{IDs: ids})
		}
		t.Sockets[i].Nodes = append(t.Sockets[i].Nodes, *node)
	}
	// Nodes of an unknown socket stand after the known ones.
	slices.SortStableFunc(t.Sockets, func(x, y Socket) int {
		if len(x.IDs) == 0 || len(y.IDs) == 0 {
			return len(y.IDs) - len(x.IDs)
		}
		return slices.Compare(x.IDs, y.IDs)
	})
	t.MemoryOnly = memoryOnly(bare)
}

// packages lists the packages of each node's CPUs, ascending.
func (b *builder) packages() map[int][]int {
	packages := map[int][]int{}
	for _, c := range b.m.CPUs {
		if c.Core == nil || c.NUMANode == nil {
			continue
		}
		list := packages[*c.NUMANode]
		if i, found := slices.BinarySearch(list, c.Core.Package); !found {
			packages[*c.NUMANode] = slices.Insert(list, i, c.Core.Package)
		}
	}
	return packages
}

func memoryOnly(nodes []model.NUMANode) *MemoryOnly {
	if len(nodes) == 0 {
		return nil
	}
	ids := make([]int, len(nodes))
	var total uint64
	complete := true
	for i, n := range nodes {
		ids[i] = n.ID
		if n.MemoryBytes == nil {
			complete = false
			continue
		}
		total += *n.MemoryBytes
	}
	only := &MemoryOnly{Nodes: cpuset.New(ids...).String(), Count: len(nodes)}
	if complete && total > 0 {
		only.MemoryMiB = mebibytes(&total)
	}
	return only
}

func (b *builder) counts(t *Topology) Counts {
	c := Counts{NUMANodes: len(b.m.NUMANodes), GPUs: len(b.m.GPUs), NICs: len(b.m.NICs), Roots: b.rootCount}
	t.eachNode(func(n *Node) {
		c.CPUs += n.CPUCount
		n.eachDevice(func(d *Device) {
			switch {
			case d.Kind == KindAccelerator && d.Name == "":
				c.Accelerators++
			case d.Kind == KindGPU && d.Name == "" && d.Resource != "":
				c.GPUs++ // which the machine does not list
			}
		})
	})
	packages := map[int]bool{}
	for _, s := range t.Sockets {
		for _, id := range s.IDs {
			packages[id] = true
		}
	}
	c.Sockets = len(packages)
	return c
}

func mebibytes(bytes *uint64) *uint64 {
	if bytes == nil {
		return nil
	}
	mib := *bytes >> 20
	return &mib
}

// notes says what the picture leaves open, once for the whole machine.
func (b *builder) notes(t *Topology) []string {
	var notes []string
	for _, s := range simulated(t) {
		notes = append(notes, "simulated: "+s)
	}
	notes = append(notes, t.twoOwners()...)
	notes = append(notes, t.withoutCPUs()...)
	if n := b.unpublishedRoots(); n > 0 {
		notes = append(notes, plural.Count(n, "root is", "roots are")+" not published as pcieRoot (dashed in the picture): claims cannot match devices there by root")
	}
	offline := 0
	for _, cpu := range b.m.CPUs {
		if !cpu.Online {
			offline++
		}
	}
	if offline > 0 {
		notes = append(notes, plural.Count(offline, "CPU is", "CPUs are")+" offline and not shown")
	}
	return notes
}

func (b *builder) unpublishedRoots() int {
	n := 0
	for _, node := range append(nodesByID(b.nodes), b.unplaced) {
		for _, r := range node.Roots {
			if !r.Published {
				n++
			}
		}
	}
	return n
}

func nodesByID(nodes map[int]*Node) []*Node {
	list := make([]*Node, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *Node) int { return *a.ID - *b.ID })
	return list
}
