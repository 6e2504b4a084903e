// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Machine is everything known about one machine at one moment. Read only.
type Machine struct {
	// Name is a machine file's name; empty for a live host.
	Name string
	// Architecture is uname's, such as x86_64; empty when unknown.
	Architecture string
	NUMANodes    []NUMANode    // by ID
	CPUs         []CPU         // by ID
	Roots        []PCIRoot     // by domain and bus
	Functions    []PCIFunction // root-major, then by address
	NICs         []NIC         // root-major, then by address, then port, then name
	GPUs         []GPU         // root-major, then by address

	functions map[PCIAddress]int
	rootOrder map[string]int
}

// New sorts parts into the one order all drivers list devices in (root, then
// address), indexes them, finds the sockets of NUMA nodes by their CPUs where
// those tell, and refuses contradictions. It takes over the slices.
func New(parts Machine) (*Machine, error) {
	m := parts
	m.rootOrder = make(map[string]int, len(m.Roots))
	slices.SortFunc(m.Roots, compareRoots)
	for i, r := range m.Roots {
		m.rootOrder[r.Name] = i
	}
	slices.SortFunc(m.NUMANodes, func(a, b NUMANode) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(m.CPUs, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
	m.findSockets()
	slices.SortFunc(m.Functions, func(a, b PCIFunction) int {
		return cmp.Or(cmp.Compare(m.rootOrder[a.Root], m.rootOrder[b.Root]), a.Address.Compare(b.Address))
	})
	m.functions = make(map[PCIAddress]int, len(m.Functions))
	for i, f := range m.Functions {
		if _, twice := m.functions[f.Address]; twice {
			return nil, fmt.Errorf("PCI function %s is listed twice", f.Address)
		}
		m.functions[f.Address] = i
	}
	slices.SortStableFunc(m.NICs, m.compareNICs)
	slices.SortStableFunc(m.GPUs, func(a, b GPU) int { return m.comparePCI(&a.PCI, &b.PCI) })
	return &m, m.check()
}

// findSockets sets the socket of each node whose online CPUs tell a package. A
// node of two packages, which firmware with NUMA turned off makes of a whole
// machine, is on neither.
func (m *Machine) findSockets() {
	told := map[int]bool{}
	for _, c := range m.CPUs {
		if c.NUMANode == nil || c.Core == nil || !c.Online {
			continue
		}
		i, there := m.nodeIndex(*c.NUMANode)
		if !there {
			continue
		}
		n := &m.NUMANodes[i]
		switch {
		case !told[n.ID]:
			told[n.ID], n.Socket = true, &c.Core.Package
		case n.Socket != nil && *n.Socket != c.Core.Package:
			n.Socket = nil
		}
	}
}

// Socket is the package that a NUMA node belongs to, or nil: where the node is
// not known, and where its CPUs do not tell.
func (m *Machine) Socket(node *int) *int {
	if node == nil {
		return nil
	}
	if n := m.NUMANode(*node); n != nil {
		return n.Socket
	}
	return nil
}

// Function returns the PCI function at an address, or nil.
func (m *Machine) Function(a PCIAddress) *PCIFunction {
	i, ok := m.functions[a]
	if !ok {
		return nil
	}
	return &m.Functions[i]
}

// NUMANode returns the node with an ID, or nil.
func (m *Machine) NUMANode(id int) *NUMANode {
	i, ok := m.nodeIndex(id)
	if !ok {
		return nil
	}
	return &m.NUMANodes[i]
}

func (m *Machine) nodeIndex(id int) (int, bool) {
	return slices.BinarySearchFunc(m.NUMANodes, id, func(n NUMANode, id int) int { return cmp.Compare(n.ID, id) })
}

// Root returns the root bus with a name, or nil.
func (m *Machine) Root(name string) *PCIRoot {
	i, ok := m.rootOrder[name]
	if !ok {
		return nil
	}
	return &m.Roots[i]
}

// RootOf returns the root bus a function hangs from, or nil.
func (m *Machine) RootOf(a PCIAddress) *PCIRoot {
	f := m.Function(a)
	if f == nil {
		return nil
	}
	return m.Root(f.Root)
}

// Path lists the functions from the root down to an address, that one last.
func (m *Machine) Path(a PCIAddress) []PCIAddress {
	var path []PCIAddress
	for f := m.Function(a); f != nil && len(path) <= len(m.Functions); {
		path = append(path, f.Address)
		if f.Parent == nil {
			break
		}
		f = m.Function(*f.Parent)
	}
	slices.Reverse(path)
	return path
}

func (m *Machine) check() error {
	var errs []error
	for _, f := range m.Functions {
		if m.Root(f.Root) == nil {
			errs = append(errs, fmt.Errorf("PCI function %s hangs from root %q, which is not listed", f.Address, f.Root))
		}
		errs = append(errs, m.checkNode("PCI function "+f.Address.String(), f.NUMANode))
	}
	for _, n := range m.NICs {
		errs = append(errs, m.checkNode("NIC "+n.String(), n.NUMANode))
	}
	for _, g := range m.GPUs {
		errs = append(errs, m.checkNode("GPU "+g.PCI.String(), g.NUMANode))
	}
	return errors.Join(errs...)
}

func (m *Machine) checkNode(what string, node *int) error {
	if node == nil || m.NUMANode(*node) != nil {
		return nil
	}
	return fmt.Errorf("%s is on NUMA node %d, which does not exist", what, *node)
}

// String names a NIC for people: its address, interface and RDMA device, as
// far as it has them.
func (n NIC) String() string {
	switch {
	case n.PCI != nil && n.Interface != nil:
		return n.PCI.String() + " (" + n.Interface.Name + ")"
	case n.PCI != nil:
		return n.PCI.String()
	case n.Interface != nil:
		return n.Interface.Name
	case n.RDMA != nil:
		return n.RDMA.Name
	}
	return "unnamed"
}
