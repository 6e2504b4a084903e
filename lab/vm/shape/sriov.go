// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"math"

	"plumbline.dev/plumbline/internal/model"
)

// AddSRIOV adds a NIC that can have virtual functions, whose interface has that name. It
// hangs from a root of its own after all others and is local to the last NUMA node; its
// virtual functions have further devices of its bus, as those of an Intel 82576 do.
func (s *Shape) AddSRIOV(name string) error {
	var last uint8
	for _, r := range s.Roots {
		last = max(last, r.Bus)
	}
	for _, d := range s.Devices {
		last = max(last, d.Address.Bus)
	}
	if last > math.MaxUint8-2 {
		return fmt.Errorf("add %s to %s: its buses go up to %02x, and it takes two above them", name, s.Name, last)
	}
	root := Root{Bus: last + 1}
	if len(s.Nodes) > 0 {
		root.Node = &s.Nodes[len(s.Nodes)-1].ID
	}
	s.Roots = append(s.Roots, root)
	s.Devices = append(s.Devices, Device{
		Kind: NIC, Name: name, Address: model.PCIAddress{Bus: last + 2}, Root: root.Name(), Node: root.Node,
		Model: "Intel 82576", Interface: name, SRIOV: true,
	})
	return nil
}

// SRIOV returns the interface of the first NIC that can have virtual functions; empty for none.
func (s *Shape) SRIOV() string {
	for _, d := range s.Devices {
		if d.SRIOV {
			return d.Interface
		}
	}
	return ""
}
