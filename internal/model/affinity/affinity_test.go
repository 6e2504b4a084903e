// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package affinity_test

import (
	"testing"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
)

// The machine of the tests, bridges by their addresses:
//
//	pci0000:80  root port 80:01.0 ─ switch 81:00.0 ┬ 82:00.0 ─ GPU 83:00.0
//	                                               ├ 82:01.0 ─ NIC 84:00.0, 84:00.1
//	                                               └ 82:02.0 ─ switch 85:00.0 ─ 86:00.0 ─ NIC 87:00.0
//	            root port 80:03.0 ─ NIC 88:00.0
//	            NIC 80:1b.0, on the root bus itself
//	pci0000:90  root port 90:01.0 ─ GPU 91:00.0, same node
//	pci0000:c0  GPU c1:00.0, node 1, whose bridges are not known; GPU c2:00.0 too
//	pci0000:d0  NIC d0:00.0, which no node claims
var functions = []struct{ address, root, parent, node string }{
	{"0000:80:01.0", "pci0000:80", "", "0"}, {"0000:81:00.0", "pci0000:80", "0000:80:01.0", "0"},
	{"0000:82:00.0", "pci0000:80", "0000:81:00.0", "0"}, {"0000:83:00.0", "pci0000:80", "0000:82:00.0", "0"},
	{"0000:82:01.0", "pci0000:80", "0000:81:00.0", "0"}, {"0000:84:00.0", "pci0000:80", "0000:82:01.0", "0"},
	{"0000:84:00.1", "pci0000:80", "0000:82:01.0", "0"},
	{"0000:82:02.0", "pci0000:80", "0000:81:00.0", "0"}, {"0000:85:00.0", "pci0000:80", "0000:82:02.0", "0"},
	{"0000:86:00.0", "pci0000:80", "0000:85:00.0", "0"}, {"0000:87:00.0", "pci0000:80", "0000:86:00.0", "0"},
	{"0000:80:03.0", "pci0000:80", "", "0"}, {"0000:88:00.0", "pci0000:80", "0000:80:03.0", ""},
	{"0000:80:1b.0", "pci0000:80", "", "0"},
	{"0000:90:01.0", "pci0000:90", "", "0"}, {"0000:91:00.0", "pci0000:90", "0000:90:01.0", "0"},
	{"0000:c1:00.0", "pci0000:c0", "", "1"}, {"0000:c2:00.0", "pci0000:c0", "", "1"},
	{"0000:d0:00.0", "pci0000:d0", "", ""},
}

func address(t *testing.T, s string) model.PCIAddress {
	t.Helper()
	a, err := model.ParsePCIAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func testMachine(t *testing.T, nodes ...int) *model.Machine {
	t.Helper()
	parts := model.Machine{Roots: []model.PCIRoot{
		{Name: "pci0000:80", NUMANode: ptr.To(0)}, {Name: "pci0000:90"}, {Name: "pci0000:c0"}, {Name: "pci0000:d0"},
	}}
	for _, id := range nodes {
		parts.NUMANodes = append(parts.NUMANodes, model.NUMANode{ID: id})
	}
	for _, f := range functions {
		one := model.PCIFunction{Address: address(t, f.address), Root: f.root}
		if f.parent != "" {
			one.Parent = ptr.To(address(t, f.parent))
		}
		if f.node != "" {
			one.NUMANode = ptr.To(int(f.node[0] - '0'))
		}
		parts.Functions = append(parts.Functions, one)
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBetween(t *testing.T) {
	m := testMachine(t, 0, 1)
	for _, tc := range []struct {
		a, b string
		want affinity.Class
	}{
		{"0000:83:00.0", "0000:83:00.0", affinity.Self},
		{"0000:83:00.0", "0000:84:00.0", affinity.PIX},
		{"0000:84:00.0", "0000:84:00.1", affinity.PIX},
		{"0000:83:00.0", "0000:87:00.0", affinity.PXB},
		{"0000:83:00.0", "0000:88:00.0", affinity.PHB},
		{"0000:80:1b.0", "0000:88:00.0", affinity.PHB},
		{"0000:83:00.0", "0000:91:00.0", affinity.NODE},
		{"0000:88:00.0", "0000:91:00.0", affinity.NODE}, // by its root's word
		{"0000:83:00.0", "0000:c1:00.0", affinity.SYS},
		{"0000:c1:00.0", "0000:c2:00.0", affinity.SameRoot},
		{"0000:83:00.0", "0000:d0:00.0", affinity.Unknown},
		{"0000:83:00.0", "0000:ee:00.0", affinity.Unknown}, // not there
	} {
		a, b := affinity.Place{PCI: ptr.To(address(t, tc.a))}, affinity.Place{PCI: ptr.To(address(t, tc.b))}
		if got := affinity.Between(m, a, b); got != tc.want {
			t.Errorf("%s to %s: %s, want %s", tc.a, tc.b, got, tc.want)
		}
		if got := affinity.Between(m, b, a); got != tc.want {
			t.Errorf("%s to %s: %s, want %s", tc.b, tc.a, got, tc.want)
		}
	}
}

// A NIC is as near to a GPU as its Data Direct function, or as itself if that is nearer;
// to everything else as itself.
func TestDataDirect(t *testing.T) {
	parts := model.Machine{
		NUMANodes: []model.NUMANode{{ID: 0}, {ID: 1}},
		Roots:     []model.PCIRoot{{Name: "pci0000:00", NUMANode: ptr.To(0)}, {Name: "pci0001:00", NUMANode: ptr.To(1)}},
	}
	for _, f := range []struct {
		address, root, parent string
		class                 uint32
	}{
		{"0000:00:01.0", "pci0000:00", "", 0x060400}, {"0000:01:00.0", "pci0000:00", "0000:00:01.0", 0x020000},
		{"0000:01:00.1", "pci0000:00", "0000:00:01.0", 0x030200},
		{"0001:00:01.0", "pci0001:00", "", 0x060400}, {"0001:01:00.0", "pci0001:00", "0001:00:01.0", 0x030200},
		{"0001:01:00.1", "pci0001:00", "0001:00:01.0", 0x080100}, {"0001:01:00.2", "pci0001:00", "0001:00:01.0", 0x020000},
	} {
		one := model.PCIFunction{Address: address(t, f.address), Root: f.root, Class: f.class}
		if f.parent != "" {
			one.Parent = ptr.To(address(t, f.parent))
		}
		parts.Functions = append(parts.Functions, one)
	}
	parts.NICs = []model.NIC{
		{PCI: ptr.To(address(t, "0000:01:00.0")), DataDirect: ptr.To(address(t, "0001:01:00.1"))}, {PCI: ptr.To(address(t, "0001:01:00.2"))},
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	nic := affinity.OfNIC(parts.NICs[0])
	for _, tc := range []struct {
		to   affinity.Place
		want affinity.Class
	}{
		{affinity.OfGPU(model.GPU{PCI: address(t, "0001:01:00.0")}), affinity.PIX},
		{affinity.OfGPU(model.GPU{PCI: address(t, "0000:01:00.1")}), affinity.PIX},
		{affinity.OfNIC(parts.NICs[1]), affinity.SYS},
		{affinity.OfNode(0), affinity.NODE},
		{affinity.OfNode(1), affinity.SYS},
	} {
		for _, got := range []affinity.Class{affinity.Between(m, nic, tc.to), affinity.Between(m, tc.to, nic)} {
			if got != tc.want {
				t.Errorf("%+v: %s, want %s", tc.to, got, tc.want)
			}
		}
	}
}

func TestNodesAndDevices(t *testing.T) {
	m := testMachine(t, 0, 1)
	gpu := affinity.OfGPU(model.GPU{PCI: address(t, "0000:83:00.0")})
	nic := affinity.OfNIC(model.NIC{NUMANode: ptr.To(1)})
	for _, tc := range []struct {
		a, b affinity.Place
		want affinity.Class
	}{
		{gpu, affinity.OfNode(0), affinity.NODE},
		{gpu, affinity.OfNode(1), affinity.SYS},
		{nic, affinity.OfNode(1), affinity.NODE},
		{affinity.OfNode(0), affinity.OfNode(1), affinity.SYS},
		{affinity.Place{}, affinity.OfNode(1), affinity.Unknown},
	} {
		if got := affinity.Between(m, tc.a, tc.b); got != tc.want {
			t.Errorf("%+v to %+v: %s, want %s", tc.a, tc.b, got, tc.want)
		}
	}
}

// On a machine of one node nothing can be elsewhere.
func TestTheOnlyNode(t *testing.T) {
	m, err := model.New(model.Machine{NUMANodes: []model.NUMANode{{ID: 0}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := affinity.Between(m, affinity.Place{}, affinity.OfNode(0)); got != affinity.NODE {
		t.Errorf("%s, want NODE", got)
	}
}

func TestClasses(t *testing.T) {
	for i, c := range affinity.Classes() {
		if c.String() == "" || c.Meaning() == "" || (c == affinity.Unknown) != (c.String() == "?") {
			t.Errorf("class %d is %q: %q", i, c, c.Meaning())
		}
		if c.SharesRoot() && !c.SharesNode() {
			t.Errorf("%s shares a root and no node", c)
		}
	}
}
