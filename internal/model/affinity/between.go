// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"fmt"

	"plumbline.dev/plumbline/internal/model"
)

// Place is where a device, CPU or memory is: at a PCI function, a NUMA node, or both.
// CPUs and memory have a node only.
type Place struct {
	PCI *model.PCIAddress
	// NUMANode is that of the device itself; nil: that of its PCI function, or else
	// of the root.
	NUMANode *int
}

// OfNIC is where a NIC is.
func OfNIC(n model.NIC) Place { return Place{PCI: n.PCI, NUMANode: n.NUMANode} }

// OfGPU is where a GPU is.
func OfGPU(g model.GPU) Place { return Place{PCI: &g.PCI, NUMANode: g.NUMANode} }

// OfNode is where the CPUs and the memory of a NUMA node are.
func OfNode(id int) Place { return Place{NUMANode: &id} }

// Between classifies the path between two places. It is symmetric. Between a GPU and a
// NIC with a Data Direct function it is the path of that function, which does the NIC's
// transfers to GPUs, where it is the shorter one.
func Between(m *model.Machine, a, b Place) Class {
	nearest := between(m, a, b)
	if direct := directTo(m, a, b); direct != nil {
		nearest = min(nearest, between(m, Place{PCI: direct}, b))
	}
	if direct := directTo(m, b, a); direct != nil {
		nearest = min(nearest, between(m, a, Place{PCI: direct}))
	}
	return nearest
}

// directTo is the function by which a NIC reaches a GPU, nil where it has none, or the
// other place is no GPU.
func directTo(m *model.Machine, nic, gpu Place) *model.PCIAddress {
	if nic.PCI == nil {
		return nil
	}
	f := function(m, gpu)
	if f == nil || f.ClassByte() != model.PCIClassDisplay && f.ClassByte() != model.PCIClassAccelerator {
		return nil
	}
	for i := range m.NICs {
		if n := &m.NICs[i]; n.DataDirect != nil && n.PCI != nil && *n.PCI == *nic.PCI {
			return n.DataDirect
		}
	}
	return nil
}

func between(m *model.Machine, a, b Place) Class {
	fa, fb := function(m, a), function(m, b)
	switch {
	case a.PCI != nil && b.PCI != nil && *a.PCI == *b.PCI:
		return Self
	case fa != nil && fb != nil && fa.Root == fb.Root:
		return belowRoot(m, fa, fb)
	}
	na, nb := node(m, a), node(m, b)
	switch {
	case na == nil || nb == nil:
		return Unknown
	case *na == *nb:
		return NODE
	}
	return SYS
}

// belowRoot classifies two functions of one root by the bridges between them. The path
// to a function behind a switch has two bridges of it, the upstream and one downstream
// port, and functions behind the same switch share the upstream port.
func belowRoot(m *model.Machine, a, b *model.PCIFunction) Class {
	pa, pb := m.Path(a.Address), m.Path(b.Address)
	shared := 0
	for shared < len(pa) && shared < len(pb) && pa[shared] == pb[shared] {
		shared++
	}
	switch {
	case shared == 0 && (hidden(m, pa[0]) || hidden(m, pb[0])):
		return SameRoot
	case shared == 0:
		return PHB
	case len(pa)-shared <= 2 && len(pb)-shared <= 2:
		return PIX
	}
	return PXB
}

// hidden says whether bridges between the root bus and a function are not known:
// it hangs from the root, and has another bus than the root.
func hidden(m *model.Machine, top model.PCIAddress) bool {
	f := m.Function(top)
	if f.Parent != nil {
		return true
	}
	var domain, bus uint32
	if n, err := fmt.Sscanf(f.Root, "pci%x:%x", &domain, &bus); err != nil || n != 2 {
		return true
	}
	return domain != top.Domain || bus != uint32(top.Bus)
}

func function(m *model.Machine, p Place) *model.PCIFunction {
	if p.PCI == nil {
		return nil
	}
	return m.Function(*p.PCI)
}

// node is the NUMA node of a place: its own, else the function's, else the root's. On a
// machine of one node all are on it, also what firmware gives no node.
func node(m *model.Machine, p Place) *int {
	if p.NUMANode != nil {
		return p.NUMANode
	}
	if f := function(m, p); f != nil {
		if f.NUMANode != nil {
			return f.NUMANode
		}
		if r := m.Root(f.Root); r != nil && r.NUMANode != nil {
			return r.NUMANode
		}
	}
	if len(m.NUMANodes) == 1 {
		return &m.NUMANodes[0].ID
	}
	return nil
}
