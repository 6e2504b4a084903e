// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// One RDMA device of two ports, as mlx4 has it: each port has its own interface. An
// InfiniBand device without an interface is told by its port's state.
func TestPortsOfOneDevice(t *testing.T) {
	two, alone := model.PCIAddress{Bus: 0x91}, model.PCIAddress{Bus: 0x92}
	m, err := model.New(model.Machine{
		Roots: []model.PCIRoot{{Name: "pci0000:90"}},
		Functions: []model.PCIFunction{
			{Address: two, Root: "pci0000:90"}, {Address: alone, Root: "pci0000:90"},
		},
		NICs: []model.NIC{
			{PCI: &two, Interface: &model.Interface{Name: "eth0", State: ptr.To("up")}, RDMA: &model.RDMADevice{Name: "mlx4_0"}},
			{PCI: &two, Port: ptr.To("p1"), Interface: &model.Interface{Name: "eth1", State: ptr.To("down")}},
			{PCI: &alone, RDMA: &model.RDMADevice{Name: "mlx5_0", CharDevices: []string{"/dev/infiniband/uverbs1"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := BuildPod(m, PodSelf{Name: "pod", HasFile: func(string) bool { return true }, RDMAPorts: map[string][]RDMAPort{
		"mlx4_0": {{Number: 1, State: "ACTIVE", Interface: "eth0"}, {Number: 2, State: "DOWN", Interface: "eth1"}, {Number: 3, State: "INIT", Interface: "eth9"}},
		"mlx5_0": {{Number: 1, State: "ACTIVE", Interface: "eth0"}},
	}})
	var out bytes.Buffer
	if err := PodText(&out, p); err != nil {
		t.Fatal(err)
	}
	want := `
mlx4_0 port 1 ==> eth0 (Up)
mlx4_0 port 2 ==> eth1 (Down), port DOWN
mlx4_0 port 3 ==> no interface, port INIT
mlx5_0 port 1 ==> no interface, port ACTIVE
`
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("want%s:\n%s", want, out.String())
	}
}
