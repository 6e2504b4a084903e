// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"
	"testing"
)

func address(t *testing.T, s string) PCIAddress {
	t.Helper()
	a, err := ParsePCIAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNewOrdersRootMajor(t *testing.T) {
	low, high, far := address(t, "0000:91:00.0"), address(t, "0000:05:00.0"), address(t, "0001:00:00.0")
	m, err := New(Machine{
		Roots: []PCIRoot{{Name: "pci0001:00"}, {Name: "pci0000:8c"}, {Name: "pci0000:04"}},
		Functions: []PCIFunction{
			{Address: far, Root: "pci0001:00"}, {Address: low, Root: "pci0000:8c"}, {Address: high, Root: "pci0000:04"},
		},
		NICs: []NIC{{Interface: &Interface{Name: "dummy0"}}, {PCI: &far}, {PCI: &low}, {PCI: &high}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range m.NICs {
		got = append(got, n.String())
	}
	if want := "0000:05:00.0 0000:91:00.0 0001:00:00.0 dummy0"; strings.Join(got, " ") != want {
		t.Errorf("order %v, want %s", got, want)
	}
}

func TestNewRefusesContradictions(t *testing.T) {
	a, nowhere := address(t, "0000:91:00.0"), 7
	cases := map[string]Machine{
		"0000:91:00.0 is listed twice": {
			Roots:     []PCIRoot{{Name: "pci0000:8c"}},
			Functions: []PCIFunction{{Address: a, Root: "pci0000:8c"}, {Address: a, Root: "pci0000:8c"}},
		},
		`hangs from root "pci0000:8c"`: {Functions: []PCIFunction{{Address: a, Root: "pci0000:8c"}}},
		"NUMA node 7":                  {NICs: []NIC{{PCI: &a, NUMANode: &nowhere}}},
	}
	for want, parts := range cases {
		if _, err := New(parts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// A NUMA node is of the socket that all its online CPUs tell, and of none where
// they tell two or nothing; what the node itself was told stands only then.
func TestSocketsOfNodes(t *testing.T) {
	told, two := 7, 2
	cpu := func(id, node int, socket *int, online bool) CPU {
		c := CPU{ID: id, NUMANode: &node, Online: online}
		if socket != nil {
			c.Core = &CoreID{Package: *socket, Core: id}
		}
		return c
	}
	zero, one := 0, 1
	m, err := New(Machine{
		NUMANodes: []NUMANode{{ID: 3, Socket: &told}, {ID: 0}, {ID: 1, Socket: &told}, {ID: 2}, {ID: 4}},
		CPUs: []CPU{
			cpu(0, 0, &zero, true), cpu(1, 0, &zero, true), cpu(2, 1, &zero, true),
			cpu(3, 2, &zero, true), cpu(4, 2, &one, true), cpu(5, 2, &zero, true),
			cpu(6, 3, nil, true), cpu(7, 4, &one, false), {ID: 8, Online: true, NUMANode: &told, Core: &CoreID{}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range []*int{&zero, &zero, nil, &told, nil, nil} {
		if got := m.Socket(&node); (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("node %d: socket %v, want %v", node, got, want)
		}
	}
	if m.Socket(nil) != nil {
		t.Error("no node is on a socket")
	}
	again, err := New(Machine{NUMANodes: m.NUMANodes, CPUs: m.CPUs})
	if err != nil || again.Socket(&two) != nil || *again.Socket(&one) != 0 {
		t.Errorf("made again: %v, %v", again.NUMANodes, err)
	}
}

func TestPathEndsInALoop(t *testing.T) {
	a, b := address(t, "0000:01:00.0"), address(t, "0000:02:00.0")
	m, err := New(Machine{
		Roots:     []PCIRoot{{Name: "pci0000:00"}},
		Functions: []PCIFunction{{Address: a, Root: "pci0000:00", Parent: &b}, {Address: b, Root: "pci0000:00", Parent: &a}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Path(a)); n > 3 {
		t.Errorf("a path of %d functions on a machine of two", n)
	}
}
