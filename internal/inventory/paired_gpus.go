// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/model"
)

// DataDirect keeps what the vital product data of functions says of whose Data Direct
// functions are: reading it takes a function up to a second, and it does not change while
// the function is there. An error is kept too, until the function goes or another driver
// is bound to it: a function that does not answer would hold up every scan.
type DataDirect struct {
	known map[model.PCIAddress]identity
}

// identity is a function, and what its vital product data says; empty where that has no
// such keyword.
type identity struct {
	vendor, device uint16
	driver         string
	value          string
	err            error
}

// NewDataDirect knows nothing yet.
func NewDataDirect() *DataDirect { return &DataDirect{known: map[model.PCIAddress]identity{}} }

// of is what a function's vital product data says, "" where it does not.
func (d *DataDirect) of(sys fs.FS, f *model.PCIFunction) (string, error) {
	now := identity{vendor: f.Vendor, device: f.Device}
	if f.Driver != nil {
		now.driver = *f.Driver
	}
	known, ok := d.known[f.Address]
	if ok && known.vendor == now.vendor && known.device == now.device && (known.err == nil || known.driver == now.driver) {
		return known.value, known.err
	}
	now.value, now.err = pciconfig.VPDKeyword(sys, pciconfig.VPDFile(f.Address), pciconfig.DataDirectKeyword)
	if errors.Is(now.err, pciconfig.ErrNoKeyword) {
		now.err = nil
	}
	if now.err != nil {
		now.value = ""
	}
	d.known[f.Address] = now
	return now.value, now.err
}

// forget forgets functions that are not there any more: another of the same make in the
// same slot has vital product data of its own.
func (d *DataDirect) forget(there []model.PCIFunction) {
	addresses := make(map[model.PCIAddress]bool, len(there))
	for i := range there {
		addresses[there[i].Address] = true
	}
	maps.DeleteFunc(d.known, func(a model.PCIAddress, _ identity) bool { return !addresses[a] })
}

// pairGPUs says of NICs which GPU is theirs where the PCIe tree does not: by their Data
// Direct functions, or by what was told (Options.PairedGPUs), which wins.
func (s *scan) pairGPUs() {
	s.findDataDirect()
	s.pairByDataDirect()
	for i := range s.parts.NICs {
		n := &s.parts.NICs[i]
		own := s.functionAt(n.PCI)
		if own == nil {
			continue
		}
		gpu, told := s.opt.PairedGPUs[*n.PCI]
		if !told {
			continue
		}
		f := s.functionAt(&gpu)
		switch {
		case f == nil:
			s.problem("bus/pci/devices/"+n.PCI.String(), "is said to belong to GPU %s, which the machine does not have: left out", gpu)
		case f.Root == own.Root && s.isPublishedRoot(f.Root):
			// The root says it already, and says it of all that are below.
		default:
			n.PairedGPU = &gpu
		}
	}
}

func (s *scan) isPublishedRoot(name string) bool {
	return slices.ContainsFunc(s.parts.Roots, func(r model.PCIRoot) bool { return r.Name == name && r.Published })
}

// findDataDirect sets the Data Direct function of each NIC that has exactly one.
func (s *scan) findDataDirect() {
	if s.opt.DataDirect == nil {
		return
	}
	s.opt.DataDirect.forget(s.parts.Functions)
	owners := map[string][]model.PCIAddress{}
	for i := range s.parts.Functions {
		f := &s.parts.Functions[i]
		if !pciconfig.IsDataDirect(f) {
			continue
		}
		if value := s.identity(f); value != "" {
			owners[value] = append(owners[value], f.Address)
		}
	}
	if len(owners) == 0 {
		return
	}
	for i := range s.parts.NICs {
		n := &s.parts.NICs[i]
		f := s.functionAt(n.PCI)
		if f == nil || !pciconfig.MayHaveDataDirect(f) {
			continue
		}
		switch directs := owners[s.identity(f)]; len(directs) {
		case 0:
		case 1:
			n.DataDirect, n.DataDirectAsRoot = &directs[0], s.opt.DataDirectAsRoot
		default:
			s.problem("bus/pci/devices/"+f.Address.String(), "%d Data Direct functions are its own: none is taken", len(directs))
		}
	}
}

func (s *scan) identity(f *model.PCIFunction) string {
	value, err := s.opt.DataDirect.of(s.sys, f)
	if errors.Is(err, fs.ErrNotExist) && !pciconfig.IsDataDirect(f) {
		return "" // a NIC without such data has no Data Direct
	}
	if err != nil {
		s.problem(pciconfig.VPDFile(f.Address), "whose Data Direct function is whose is not known: %w", err)
	}
	return value
}

// pairByDataDirect pairs NICs with the GPU that their Data Direct functions are beside:
// the only one below the root, or, where there are as many as NICs, the one with the same
// place among them, both by address.
func (s *scan) pairByDataDirect() {
	nics := map[string][]*model.NIC{}
	for i := range s.parts.NICs {
		if f := s.functionAt(s.parts.NICs[i].DataDirect); f != nil {
			nics[f.Root] = append(nics[f.Root], &s.parts.NICs[i])
		}
	}
	if len(nics) == 0 {
		return
	}
	gpus := map[string][]*model.PCIAddress{}
	for i := range s.parts.Functions {
		f := &s.parts.Functions[i]
		if class := f.ClassByte(); f.PhysicalFunction == nil && (class == model.PCIClassDisplay || class == model.PCIClassAccelerator) {
			gpus[f.Root] = append(gpus[f.Root], &f.Address)
		}
	}
	for root, own := range nics {
		beside := gpus[root]
		slices.SortFunc(own, func(a, b *model.NIC) int { return a.PCI.Compare(*b.PCI) })
		slices.SortFunc(beside, func(a, b *model.PCIAddress) int { return a.Compare(*b) })
		for i, n := range own {
			switch {
			case len(beside) == 1:
				n.PairedGPU = beside[0]
			case len(beside) == len(own):
				n.PairedGPU = beside[i]
			}
		}
	}
}
