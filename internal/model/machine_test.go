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
