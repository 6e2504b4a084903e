// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/model"
)

func TestMerge(t *testing.T) {
	m, _ := scanned(t, Sources{Sys: tree(t, small())}, Options{})
	pci := func(s string) *model.PCIAddress { a := newAddress(s); return &a }
	held := []model.NIC{
		// In a pod: its RDMA device is left behind and looks like a NIC.
		{PCI: pci("0000:83:00.0"), Interface: &model.Interface{Name: "eth9"}, RDMA: &model.RDMADevice{Name: "mlx5_2"}, NUMANode: new(1)},
		// The second port; the first one stays free.
		{PCI: pci("0000:11:00.1"), Port: new("p1"), Interface: &model.Interface{Name: "eth2", PermanentMAC: new("02:00:00:00:00:77")}},
		// No PCI function: told by its name.
		{Interface: &model.Interface{Name: "usb0", Index: 99}},
		// Gone from the machine altogether.
		{PCI: pci("0000:f0:00.0"), Interface: &model.Interface{Name: "eth20"}},
		// Its node is gone: known no more, but still held.
		{PCI: pci("0000:11:00.0"), Interface: &model.Interface{Name: "eth0"}, NUMANode: new(6)},
	}
	got, err := Merge(m, held)
	if err != nil {
		t.Fatal(err)
	}
	want := `0000:11:00.0 interface eth0
0000:11:00.1 interface eth1 rdma mlx4_0 node 0
0000:11:00.1 port p1 interface eth2
0000:81:00.0 rdma mlx5_1 node 1
0000:82:00.0 rdma hl_0 node 1
0000:82:00.1 interface hl1 node 1
0000:83:00.0 interface eth9 rdma mlx5_2 node 1
0000:84:00.0 interface ens4 rdma rxe0 node 1
0000:f0:00.0 interface eth20
- interface usb0
`
	if diff := cmp.Diff(want, nicLines(got.NICs)); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}
	if len(m.NICs) != 9 || held[4].NUMANode == nil {
		t.Error("Merge changed what it was given")
	}
	again, err := Merge(got, held)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, nicLines(again.NICs)); diff != "" {
		t.Errorf("merged twice (-want +got):\n%s", diff)
	}
}

func TestSameNIC(t *testing.T) {
	a, b := newAddress("0000:11:00.0"), newAddress("0000:11:00.1")
	named := func(name string, permanent *string) *model.Interface {
		return &model.Interface{Name: name, PermanentMAC: permanent}
	}
	for _, tt := range []struct {
		name string
		x, y model.NIC
		want bool
	}{
		{"one function, other name", model.NIC{PCI: &a, Interface: named("eth0", nil)}, model.NIC{PCI: &a, Interface: named("net1", nil)}, true},
		{"other function", model.NIC{PCI: &a}, model.NIC{PCI: &b}, false},
		{"other port", model.NIC{PCI: &a}, model.NIC{PCI: &a, Port: new("p1")}, false},
		{"function and none", model.NIC{PCI: &a, Interface: named("eth0", nil)}, model.NIC{Interface: named("eth0", nil)}, false},
		{"permanent address wins over the name", model.NIC{Interface: named("eth0", new("02:01"))}, model.NIC{Interface: named("eth9", new("02:01"))}, true},
		{"and tells apart", model.NIC{Interface: named("eth0", new("02:01"))}, model.NIC{Interface: named("eth0", new("02:02"))}, false},
		{"name alone", model.NIC{Interface: named("eth0", nil)}, model.NIC{Interface: named("eth0", new("02:02"))}, true},
		{"RDMA alone", model.NIC{RDMA: &model.RDMADevice{Name: "a"}}, model.NIC{RDMA: &model.RDMADevice{Name: "a"}}, true},
		{"nothing", model.NIC{}, model.NIC{}, false},
	} {
		if got := sameNIC(tt.x, tt.y); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if got := sameNIC(tt.y, tt.x); got != tt.want {
			t.Errorf("%s, turned round: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
