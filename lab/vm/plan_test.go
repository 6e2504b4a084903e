// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"slices"
	"testing"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/shape"
)

func TestNICs(t *testing.T) {
	s := &Shape{Devices: []shape.Device{
		{Kind: shape.GPU, Name: "gpu-0"},
		{Kind: shape.NIC, Address: model.PCIAddress{Bus: 0x91}, Interface: "gpu0rdma0", RDMA: "mlx5_0", MTU: 8896},
		{Kind: shape.NIC, Address: model.PCIAddress{Bus: 0x92}, RDMA: "mlx5_1"},
	}}
	want := []NIC{
		{PCI: "0000:91:00.0", Name: "gpu0rdma0", MTU: 8896, Address: "10.33.0.2/24", RDMA: "mlx5_0"},
		{PCI: "0000:92:00.0", Name: "fabric1", Address: "10.33.1.2/24", RDMA: "mlx5_1"},
	}
	if got := NICs(s); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNodesUnlikeRoot(t *testing.T) {
	one := 1
	s := &Shape{
		Roots: []shape.Root{{Bus: 0, Node: &one}, {Bus: 0x10, Node: &one}, {Bus: 0x20}},
		Devices: []shape.Device{
			{Address: model.PCIAddress{Device: 4}, Root: "pci0000:00", Node: &one},
			{Address: model.PCIAddress{Bus: 0x11}, Root: "pci0000:10", Node: &one},
			{Address: model.PCIAddress{Bus: 0x21}, Root: "pci0000:20", Node: &one},
			{Address: model.PCIAddress{Bus: 0x22}, Root: "pci0000:20"},
		},
	}
	if got := fmt.Sprint(nodesUnlikeRoot(s)); got != "map[0000:00:04.0:1 0000:21:00.0:1]" {
		t.Errorf("got %s", got)
	}
}

func TestPlanKeepsTheServices(t *testing.T) {
	c := Config{Name: "n", Shape: &Shape{}, CPUs: 16, Services: []guest.Service{{Name: "a", Env: []string{"X=1"}}}, Sysctls: map[string]string{"kernel.panic": "1"},
		ModuleOptions: map[string]string{"ib_core": "netns_mode=0"}}
	p := c.plan([]string{"m.ko"})
	if p.Sysctls["kernel.panic"] != "1" || DefaultSysctls["kernel.panic"] != "10" {
		t.Errorf("sysctls %v", p.Sysctls)
	}
	if p.ModuleOptions["ib_core"] != "netns_mode=0" || p.ModuleOptions["e1000e"] == "" || moduleOptions["ib_core"] != "" {
		t.Errorf("module options %v", p.ModuleOptions)
	}
	if env := p.Services[0].Env; len(env) != 2 || env[1] != "X=1" || len(c.Services[0].Env) != 1 {
		t.Errorf("environment %v", env)
	}
}
