// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"path"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// readPCI fills in PCI functions and the roots they hang from.
func (s *scan) readPCI() {
	devices, problems := sysfs.ReadPCI(s.sys)
	s.add(problems)
	s.functions = make(map[model.PCIAddress]int, len(devices))
	roots := map[string]int{}
	for _, d := range devices {
		at, known := roots[d.Root]
		if !known {
			at = len(s.parts.Roots)
			roots[d.Root] = at
			s.parts.Roots = append(s.parts.Roots, model.PCIRoot{
				Name: d.Root, Path: d.RootPath, Published: isPublished(d.RootPath),
			})
		} else if s.parts.Roots[at].Path != d.RootPath {
			s.problem(d.Path, "PCI function left out: root %s is also at %s", d.Root, s.parts.Roots[at].Path)
			continue
		}
		s.functions[d.Address] = len(s.parts.Functions)
		s.parts.Functions = append(s.parts.Functions, s.function(d))
	}
	s.dropLostParents()
	s.placeRoots()
}

// isPublished is the upstream helper's rule: the root lies directly below
// devices, and it takes domains of four digits only
// (k8s.io/dynamic-resource-allocation/deviceattribute, verifyPCIBDFFormat).
func isPublished(rootPath string) bool {
	return path.Dir(rootPath) == "devices" && len(path.Base(rootPath)) == len("pci0000:00")
}

func (s *scan) function(d sysfs.PCIDevice) model.PCIFunction {
	f := model.PCIFunction{
		Address: d.Address, Root: d.Root, Parent: d.Parent,
		Class: d.Class, Vendor: d.Vendor, Device: d.Device,
		SubsystemVendor: d.SubsystemVendor, SubsystemDevice: d.SubsystemDevice,
		NUMANode: s.node(d.Path, d.NUMANode), Driver: d.Driver, Link: pciLink(d),
		PhysicalFunction: d.PhysicalFunction, VFIndex: d.VFIndex,
	}
	if d.TotalVFs != nil && *d.TotalVFs > 0 {
		f.SRIOV = &model.SRIOV{TotalVFs: *d.TotalVFs, NumVFs: orZero(d.NumVFs)}
	}
	return f
}

// pciLink is nil when the kernel says nothing about a link: zero means
// unreported in model.PCILink.
func pciLink(d sysfs.PCIDevice) *model.PCILink {
	link := model.PCILink{
		SpeedMTs: orZero(d.SpeedMTs), MaxSpeedMTs: orZero(d.MaxSpeedMTs),
		Width: orZero(d.Width), MaxWidth: orZero(d.MaxWidth),
	}
	if link == (model.PCILink{}) {
		return nil
	}
	return &link
}

// dropLostParents clears the parent of functions whose bridge could not be
// read: they still hang from their root.
func (s *scan) dropLostParents() {
	for i := range s.parts.Functions {
		f := &s.parts.Functions[i]
		if f.Parent == nil {
			continue
		}
		if _, known := s.functions[*f.Parent]; !known {
			s.problem("bus/pci/devices/"+f.Address.String(), "bridge %s above it can not be read: taken as directly below %s", f.Parent, f.Root)
			f.Parent = nil
		}
	}
}

// placeRoots sets the NUMA node of each root on which its functions agree.
func (s *scan) placeRoots() {
	nodes := map[string]map[int]bool{}
	for _, f := range s.parts.Functions {
		if f.NUMANode == nil {
			continue
		}
		if nodes[f.Root] == nil {
			nodes[f.Root] = map[int]bool{}
		}
		nodes[f.Root][*f.NUMANode] = true
	}
	for i := range s.parts.Roots {
		if of := nodes[s.parts.Roots[i].Name]; len(of) == 1 {
			for id := range of {
				s.parts.Roots[i].NUMANode = &id
			}
		}
	}
}
