// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltopo

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// FromMachine is the topology of some devices of a machine, such as those of a claim:
// GPUs and NICs, the switches above them and their NUMA nodes. A device that the machine
// does not have is left out. A NIC and the GPU that it is paired with (NIC.PairedGPU) get
// a switch of their own where nothing in the PCIe tree is above either: NCCL sees no
// other sign of a pair.
//
// The tree is cut as NCCL cuts the one that it reads in sysfs (src/graph/xml.cc): of the
// bridges above a device only every other one, which of a switch is the upstream port,
// and no root port. What the machine does not know, and where a container counts for
// itself, is left to NCCL, which asks sysfs and its libraries for what a file lacks.
func FromMachine(m *model.Machine, devices []model.PCIAddress) *Topology {
	b := builder{m: m, nodes: map[model.PCIAddress]*branch{}, cpus: map[int]*branch{}}
	b.pairSwitches(devices)
	for _, address := range devices {
		b.place(address)
		for i := range m.NICs {
			// NCCL puts the network device below the function that does its transfers.
			if n := &m.NICs[i]; n.PCI != nil && *n.PCI == address && n.DataDirect != nil {
				b.place(*n.DataDirect)
			}
		}
	}
	return b.topology()
}

// branch is a CPU or function with what hangs from it, while the tree grows.
type branch struct {
	function Function
	below    []*branch
}

type builder struct {
	m     *model.Machine
	nodes map[model.PCIAddress]*branch
	cpus  map[int]*branch // by NUMA node, unknown as -1
	// pairs are the switches that are not the machine's, by the devices below.
	pairs map[model.PCIAddress]*branch
}

// place adds a function, and the switches above it.
func (b *builder) place(address model.PCIAddress) {
	f := b.m.Function(address)
	if f == nil || b.nodes[address] != nil {
		return
	}
	made := &branch{function: b.function(f)}
	b.nodes[address] = made
	path := b.m.Path(address)
	switch above := len(path) - 3; {
	case above >= 0 && path[above] != address:
		b.place(path[above])
		up := b.nodes[path[above]]
		up.below = append(up.below, made)
	case b.pairs[address] != nil:
		b.pairs[address].below = append(b.pairs[address].below, made)
	default:
		b.cpu(b.nodeOf(f)).add(made)
	}
}

func (b *branch) add(below *branch) { b.below = append(b.below, below) }

func (b *builder) cpu(node *int) *branch {
	id := ptr.Deref(node, -1)
	if b.cpus[id] == nil {
		b.cpus[id] = &branch{}
	}
	return b.cpus[id]
}

// nodeOf is a function's NUMA node: its own, else its root's, else the only one.
func (b *builder) nodeOf(f *model.PCIFunction) *int {
	if f.NUMANode != nil {
		return f.NUMANode
	}
	if root := b.m.Root(f.Root); root != nil && root.NUMANode != nil {
		return root.NUMANode
	}
	if len(b.m.NUMANodes) == 1 {
		return &b.m.NUMANodes[0].ID
	}
	return nil
}

func (b *builder) function(f *model.PCIFunction) Function {
	speed, width := linkOf(f)
	if f.Parent != nil {
		if up := b.m.Function(*f.Parent); up != nil {
			upSpeed, upWidth := linkOf(up)
			speed, width = slower(speed, upSpeed), slower(width, upWidth)
		}
	}
	return Function{
		Address: f.Address, Class: f.Class, Vendor: &f.Vendor, Device: &f.Device,
		SubsystemVendor: f.SubsystemVendor, SubsystemDevice: f.SubsystemDevice,
		SpeedMTs: speed, Width: width,
	}
}

// linkOf is what a link can do: idle GPUs lower the speed that it runs at.
func linkOf(f *model.PCIFunction) (speed, width int) {
	if f.Link == nil {
		return 0, 0
	}
	return cmp.Or(f.Link.MaxSpeedMTs, f.Link.SpeedMTs), cmp.Or(f.Link.MaxWidth, f.Link.Width)
}

// slower is the lower of two figures, of which zero is unknown.
func slower(a, b int) int {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// pairSwitches makes a switch for each GPU that NICs among the devices are paired with.
// Where either has a switch of its own above it, the tree of the machine stands.
func (b *builder) pairSwitches(devices []model.PCIAddress) {
	b.pairs = map[model.PCIAddress]*branch{}
	free := func(a model.PCIAddress) bool { return slices.Contains(devices, a) && len(b.m.Path(a)) <= 2 }
	for i := range b.m.NICs {
		n := &b.m.NICs[i]
		if n.PCI == nil || n.PairedGPU == nil || n.DataDirect != nil || b.pairs[*n.PCI] != nil || !free(*n.PCI) || !free(*n.PairedGPU) ||
			b.m.Function(*n.PCI) == nil || b.m.Function(*n.PairedGPU) == nil {
			continue
		}
		if b.pairs[*n.PairedGPU] == nil {
			b.pairs[*n.PairedGPU] = b.pairSwitch(*n.PairedGPU)
		}
		b.pairs[*n.PCI] = b.pairs[*n.PairedGPU]
	}
}

// pairSwitch is a switch at an address that the machine does not have, as fast as the
// GPU's link. It has the GPU's place in the order of the machine's, so that two files of
// one machine name it alike.
func (b *builder) pairSwitch(gpu model.PCIAddress) *branch {
	f := b.m.Function(gpu)
	like := b.function(f)
	number := 1 + slices.IndexFunc(b.m.Functions, func(f model.PCIFunction) bool { return f.Address == gpu })
	s := &branch{function: Function{
		Address: model.PCIAddress{Domain: 0xffff, Bus: uint8(0xff - number>>8), Device: uint8(number >> 3 & 31), Function: uint8(number & 7)},
		Class:   classBridge, Vendor: new(uint16), Device: new(uint16), SubsystemVendor: new(uint16), SubsystemDevice: new(uint16),
		SpeedMTs: like.SpeedMTs, Width: like.Width,
	}}
	b.cpu(b.nodeOf(f)).add(s)
	return s
}

// classBridge is a bridge between PCI buses, by which NCCL knows a switch.
const classBridge = model.PCIClassBridge<<16 | 0x0400

func (b *builder) topology() *Topology {
	t := &Topology{}
	for id, tree := range b.cpus {
		c := CPU{Arch: archOf(b.m.Architecture), Functions: functionsOf(tree)}
		if id >= 0 {
			c.NUMANode = &id
			if node := b.m.NUMANode(id); node != nil {
				c.CPUs = &node.CPUs
			}
		}
		t.CPUs = append(t.CPUs, c)
	}
	slices.SortFunc(t.CPUs, func(a, b CPU) int { return cmp.Compare(ptr.Deref(a.NUMANode, -1), ptr.Deref(b.NUMANode, -1)) })
	return t
}

// functionsOf are those below a branch, by address, whatever order they were added in.
func functionsOf(tree *branch) []Function {
	var functions []Function
	for _, below := range tree.below {
		f := below.function
		f.Functions = functionsOf(below)
		functions = append(functions, f)
	}
	slices.SortFunc(functions, func(a, b Function) int { return a.Address.Compare(b.Address) })
	return functions
}

// archOf is NCCL's name of what uname calls the machine; empty where NCCL has none.
func archOf(machine string) string {
	switch machine {
	case "x86_64":
		return machine
	case "aarch64":
		return "arm64"
	case "ppc64", "ppc64le":
		return "ppc64"
	}
	return ""
}
