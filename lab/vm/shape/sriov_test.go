// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/model"
)

func TestAddSRIOV(t *testing.T) {
	node := 1
	s := Shape{
		Name: "m", Nodes: []Node{{ID: 0}, {ID: node}}, Roots: []Root{{Bus: 0x36}, {Bus: 0xd7, Node: &node}},
		Devices: []Device{{Kind: GPU, Address: model.PCIAddress{Bus: 0xd8}, Root: "pci0000:d7"}},
	}
	if name := s.SRIOV(); name != "" {
		t.Errorf("%q has virtual functions", name)
	}
	if err := s.AddSRIOV("sriov0"); err != nil {
		t.Fatal(err)
	}
	root, nic := s.Roots[2], s.Devices[1]
	if root.Name() != "pci0000:d9" || nic.Root != root.Name() || nic.Address.String() != "0000:da:00.0" || *nic.Node != node || s.SRIOV() != "sriov0" {
		t.Errorf("root %+v, NIC %+v", root, nic)
	}
	s.Roots[2].Bus, s.Devices[1].Address.Bus = 0xfd, 0xfe
	if err := s.AddSRIOV("sriov1"); err == nil || !strings.Contains(err.Error(), "its buses go up to fe, and it takes two above them") {
		t.Errorf("beyond the last bus: %v", err)
	}
}
