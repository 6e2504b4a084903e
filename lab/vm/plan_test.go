// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/shape"
)

func TestNICs(t *testing.T) {
	s := &Shape{Devices: []shape.Device{
		{Kind: shape.GPU, Name: "gpu-0"},
		{Kind: shape.NIC, Address: model.PCIAddress{Bus: 0x91}, Interface: "gpu0rdma0", RDMA: "mlx5_0", MTU: 8896},
		{Kind: shape.NIC, Address: model.PCIAddress{Bus: 0x92}, RDMA: "mlx5_1"},
		{Kind: shape.NIC, Address: model.PCIAddress{Bus: 0x93}, Interface: "eth1", Network: "net-1"},
		{Kind: shape.NIC, Address: model.PCIAddress{Bus: 0x94}, Interface: "eth2", Network: "net-2"},
		{Kind: shape.NIC, Address: model.PCIAddress{Bus: 0x95}, Interface: "eth3", Network: "net-1"},
	}}
	want := []NIC{
		{PCI: "0000:91:00.0", Name: "gpu0rdma0", MTU: 8896, Address: "10.33.0.2/24", RDMA: "mlx5_0"},
		{PCI: "0000:92:00.0", Name: "fabric1", Address: "10.33.1.2/24", RDMA: "mlx5_1"},
		{PCI: "0000:93:00.0", Name: "eth1", Address: "10.33.2.2/24"},
		{PCI: "0000:94:00.0", Name: "eth2", Address: "10.33.3.2/24"},
		{PCI: "0000:95:00.0", Name: "eth3", Address: "10.33.2.3/24"},
	}
	if got := NICs(s); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Pods with a half of the host each reach each other on both networks.
func TestTwoTPUNodesAsOne(t *testing.T) {
	facts, err := machine.OpenFacts("../machines/two-ct6e-standard-4t.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := shape.FromFacts(facts)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, n := range NICs(s) {
		got[n.Name] = n.Address
	}
	want := map[string]string{
		"eth0": "10.33.0.2/24", "eth1": "10.33.1.2/24", "eth2": "10.33.2.2/24", "eth3": "10.33.1.3/24", "eth4": "10.33.2.3/24",
	}
	if !maps.Equal(got, want) {
		t.Errorf("NICs are %v, want %v", got, want)
	}
	if tpus := facts.Kubernetes.ExtendedResources["google.com/tpu"]; tpus != len(facts.GPUs) || tpus != 8 {
		t.Errorf("%d TPUs to allocate of %d, want 8", tpus, len(facts.GPUs))
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
