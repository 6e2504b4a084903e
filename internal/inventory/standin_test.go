// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"plumbline.dev/plumbline/internal/host/pciids"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
)

// A NIC that is not what the machine file says is a stand-in; one that is, is
// not.
func TestStandIns(t *testing.T) {
	sources := Sources{Sys: tree(t, small())}
	m, _ := scanned(t, sources, Options{})
	if len(m.NICs) == 0 {
		t.Fatal("the small machine has no NIC")
	}
	f := m.Function(*m.NICs[0].PCI)
	own := pciids.ID{Vendor: f.Vendor, Device: f.Device}
	for want, id := range map[bool]pciids.ID{false: own, true: {Vendor: 0x15b3, Device: 0x101e}} {
		options := Options{Products: map[model.PCIAddress]Product{f.Address: {ID: id, Model: "ConnectX-7"}}}
		m, _ := scanned(t, sources, options)
		if got := m.NICs[0].Simulated; (got != nil) != want {
			t.Errorf("machine file says %04x:%04x: simulated %v, want %t", id.Vendor, id.Device, got, want)
		}
	}
}

// Every function gets its name, also where several are of one kind.
func TestFunctionNames(t *testing.T) {
	facts, err := machine.OpenFacts("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	sys, err := machine.Render(facts)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pci.ids")
	for _, want := range []string{"", "Mellanox"} {
		if want != "" {
			if err := os.WriteFile(path, []byte("15b3  "+want+"\n\t101e  A virtual function\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		m, _ := scanned(t, Sources{Sys: sys}, Options{Names: pciids.Open(path)})
		for _, n := range m.NICs {
			f := m.Function(*n.PCI)
			if got := orEmpty(f.VendorName); got != want {
				t.Errorf("%s is called %q, want %q", n, got, want)
			}
		}
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
