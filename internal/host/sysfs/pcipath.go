// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// PCIPath is what the place of a function's directory says: the tree.
type PCIPath struct {
	Address model.PCIAddress
	// Path is its directory below /sys, such as
	// "devices/pci0000:8c/0000:8c:00.0/0000:8d:00.0".
	Path string
	// Root is the root bus, such as "pci0000:8c", and RootPath its directory.
	Root, RootPath string
	// Parent is the bridge above; nil directly below the root.
	Parent *model.PCIAddress
}

// parsePCIPath reads the tree out of a function's directory. On Hyper-V the
// root hangs below the VMBUS; behind a VMD, a second root hangs below a
// function of the first, and the first counts: it is where the lanes end.
func parsePCIPath(dir string) (PCIPath, error) {
	own, ok := pciAddress(path.Base(dir))
	if !ok {
		return PCIPath{}, fmt.Errorf("directory %q does not end in a PCI address", shorten(dir))
	}
	p := PCIPath{Path: dir, Address: own}
	at := 0
	for element := range strings.SplitSeq(path.Dir(dir), "/") {
		at += len(element) + 1
		if p.Root == "" {
			if isPCIRoot(element) {
				p.Root, p.RootPath = element, dir[:at-1]
			}
		} else if bridge, ok := pciAddress(element); ok {
			p.Parent = &bridge
		}
	}
	if p.Root == "" {
		return PCIPath{}, errors.New("no PCI root, such as pci0000:00, is above it")
	}
	return p, nil
}

// pciOf returns the address of the nearest PCI function at or above a
// directory; nil when there is none.
func pciOf(dir string) *model.PCIAddress {
	for dir != "." && dir != "/" {
		if a, ok := pciAddress(path.Base(dir)); ok {
			return &a
		}
		dir = path.Dir(dir)
	}
	return nil
}

// isPCIRoot says whether a directory is named as a root bus: "pci", a domain
// of four digits or more, and a bus (drivers/pci/probe.c,
// pci_register_host_bridge).
func isPCIRoot(name string) bool {
	number, ok := strings.CutPrefix(name, "pci")
	if !ok {
		return false
	}
	_, ok = pciAddress(number + ":00.0")
	return ok
}

// pciAddress reads a path element that may be an address; most are not, and
// are told by their colons.
func pciAddress(element string) (model.PCIAddress, bool) {
	if strings.Count(element, ":") != 2 {
		return model.PCIAddress{}, false
	}
	a, err := model.ParsePCIAddress(element)
	return a, err == nil
}
