// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"

	"plumbline.dev/plumbline/internal/machine/facts"
)

// FromFacts takes from a machine file what a virtual machine needs.
func FromFacts(f *facts.Facts) (*Shape, error) {
	s := &Shape{Name: f.Name, Arch: f.Arch, Sockets: 1, ThreadsPerCore: 1}
	if f.CPU.SMT != nil {
		s.ThreadsPerCore = *f.CPU.SMT
	}
	for _, n := range f.Nodes() {
		s.Nodes = append(s.Nodes, Node{ID: n.ID, Socket: n.Socket, CPUs: n.CPUs.Size()})
		s.Sockets = max(s.Sockets, n.Socket+1)
	}
	for _, r := range f.Roots {
		if err := s.addRoot(Root{Node: r.NUMA, SwitchUp: r.SwitchUp}, r.Name); err != nil {
			return nil, err
		}
	}
	for _, d := range f.GPUs {
		s.Devices = append(s.Devices, device(GPU, d))
	}
	for _, d := range f.NICs {
		s.Devices = append(s.Devices, device(NIC, d))
	}
	for _, d := range s.Devices {
		if err := s.addRoot(Root{Node: d.Node}, d.Root); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addRoot adds the root called name unless it is known: a machine file may
// leave the list of roots empty and name them in its devices alone.
func (s *Shape) addRoot(r Root, name string) error {
	for _, known := range s.Roots {
		if known.Name() == name {
			return nil
		}
	}
	var err error
	if r.Domain, r.Bus, err = ParseRoot(name); err != nil {
		return fmt.Errorf("shape of %s: %w", s.Name, err)
	}
	s.Roots = append(s.Roots, r)
	return nil
}

func device(kind Kind, d facts.Device) Device {
	out := Device{
		Kind: kind, Name: d.Label(), Address: d.Address, Root: d.SysfsRoot, BelowVMBus: !d.Published(),
		Node: d.NUMA, Model: d.Model, Interface: d.Ifname, RDMA: d.RDMA, Network: d.Network, NoInterface: d.IBOnly,
	}
	if d.MTU != nil {
		out.MTU = *d.MTU
	}
	return out
}
