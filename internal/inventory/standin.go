// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"plumbline.dev/plumbline/internal/host/pciids"
	"plumbline.dev/plumbline/internal/model"
)

// Product is what a machine file has at an address.
type Product struct {
	pciids.ID
	// Model is its name, such as "ConnectX-7 (MRDMA)".
	Model string
}

// markStandIns marks each NIC whose function is not the product that the machine file
// has at that address: it is a stand-in.
func (s *scan) markStandIns() {
	for i := range s.parts.NICs {
		n := &s.parts.NICs[i]
		if s.opt.Simulated != "" {
			n.Simulated = &s.opt.Simulated
			continue
		}
		f := s.functionAt(n.PCI)
		if f == nil {
			continue
		}
		product, ok := s.opt.Products[f.Address]
		if !ok || product.ID == (pciids.ID{Vendor: f.Vendor, Device: f.Device}) {
			continue
		}
		by := "a stand-in"
		if f.Driver != nil {
			by = *f.Driver
		}
		text := by + " as " + product.Model
		n.Simulated = &text
	}
}

// nameFunctions fills in the names of network functions, the only ones that
// are published with them.
func (s *scan) nameFunctions() {
	if s.opt.Names == nil {
		return
	}
	var wanted []pciids.ID
	var functions []*model.PCIFunction
	for _, n := range s.parts.NICs {
		if f := s.functionAt(n.PCI); f != nil {
			functions = append(functions, f)
			wanted = append(wanted, pciids.ID{Vendor: f.Vendor, Device: f.Device})
		}
	}
	names, err := s.opt.Names.Lookup(wanted)
	if err != nil {
		s.problem("PCI names", "left out: %w", err)
		return
	}
	for i, f := range functions {
		name, known := names[wanted[i]]
		if !known {
			continue
		}
		f.VendorName = &name.Vendor
		if name.Device != "" {
			f.DeviceName = &name.Device
		}
	}
}
