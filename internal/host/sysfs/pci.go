// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// PCIDevice is one PCI function (/sys/bus/pci/devices/*).
type PCIDevice struct {
	PCIPath
	Class          uint32 // class, 24 bits
	Vendor, Device uint16 // vendor, device
	// SubsystemVendor and SubsystemDevice are nil where both are zero, as on
	// bridges.
	SubsystemVendor, SubsystemDevice *uint16
	NUMANode                         *int    // numa_node
	Driver                           *string // driver, a link
	// Link speeds are in megatransfers per second, widths in lanes.
	SpeedMTs, MaxSpeedMTs *int // current_link_speed, max_link_speed
	Width, MaxWidth       *int // current_link_width, max_link_width
	TotalVFs, NumVFs      *int // sriov_totalvfs, sriov_numvfs
	// PhysicalFunction is the address of the function this one is virtual to.
	PhysicalFunction *model.PCIAddress // physfn, a link
	// VFIndex is the number of a virtual function at its physical one.
	VFIndex *int // virtfnN of the physical function, a link
}

// pciBridge is the base class of bridges (include/linux/pci_ids.h).
const pciBridge = 0x06

// ReadPCI reads all functions of /sys/bus/pci/devices.
func ReadPCI(sys fs.FS) ([]PCIDevice, []Problem) {
	r := newReader(sys)
	const dir = "bus/pci/devices"
	entries := r.list(dir)
	devices := make([]PCIDevice, 0, len(entries))
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		d, err := r.pciDevice(name)
		if err != nil {
			r.problem(name, fmt.Errorf("PCI function left out: %w", err))
			continue
		}
		devices = append(devices, d)
	}
	r.numberVFs(devices)
	return devices, r.problems
}

// numberVFs sets the numbers of virtual functions, which links of their physical
// functions alone say.
func (r *reader) numberVFs(devices []PCIDevice) {
	virtual := map[model.PCIAddress]*PCIDevice{}
	for i := range devices {
		if devices[i].PhysicalFunction != nil {
			virtual[devices[i].Address] = &devices[i]
		}
	}
	if len(virtual) == 0 {
		return
	}
	for _, pf := range devices {
		if pf.NumVFs == nil {
			continue
		}
		for n := range *pf.NumVFs {
			base := r.linkBase(pf.Path + "/virtfn" + strconv.Itoa(n))
			if base == nil {
				continue
			}
			a, _ := pciAddress(*base)
			if vf := virtual[a]; vf != nil && *vf.PhysicalFunction == pf.Address {
				vf.VFIndex = &n
			}
		}
	}
}

// VFIndex is the number that a physical function has for the virtual one of an address
// now; nil where it has none.
func VFIndex(sys fs.FS, physical, virtual model.PCIAddress) (*int, error) {
	r := newReader(sys)
	dir, err := r.link("bus/pci/devices/" + physical.String())
	if err != nil {
		return nil, fmt.Errorf("virtual functions of %s: %w", physical, err)
	}
	for _, e := range r.list(dir) {
		text, isLink := strings.CutPrefix(e.Name(), "virtfn")
		n, err := strconv.Atoi(text)
		if !isLink || err != nil {
			continue
		}
		if base := r.linkBase(path.Join(dir, e.Name())); base != nil && *base == virtual.String() {
			return &n, nil
		}
	}
	if len(r.problems) > 0 {
		return nil, fmt.Errorf("virtual functions of %s: %s", physical, r.problems[0])
	}
	return nil, nil
}

func (r *reader) pciDevice(name string) (PCIDevice, error) {
	dir, err := r.link(name)
	if err != nil {
		return PCIDevice{}, err
	}
	place, err := parsePCIPath(dir)
	if err != nil {
		return PCIDevice{}, err
	}
	if place.Address.String() != path.Base(name) {
		return PCIDevice{}, fmt.Errorf("link leads to another function, %s", place.Address)
	}
	d := PCIDevice{PCIPath: place}
	if d.Class, err = required(r, dir+"/class", parsePCIClass); err != nil {
		return PCIDevice{}, err
	}
	if d.Vendor, err = required(r, dir+"/vendor", parseHex16); err != nil {
		return PCIDevice{}, err
	}
	if d.Device, err = required(r, dir+"/device", parseHex16); err != nil {
		return PCIDevice{}, err
	}
	d.NUMANode = parsed(r, dir+"/numa_node", parseID)
	d.Driver = r.linkBase(dir + "/driver")
	r.pciLink(&d)
	if d.Class>>16 != pciBridge {
		r.pciEndpoint(&d)
	}
	return d, nil
}

// pciLink reads the PCIe link. The four files exist together or not at all
// (drivers/pci/pci-sysfs.c, pcie_dev_attrs_are_visible), so a conventional
// function costs one look.
func (r *reader) pciLink(d *PCIDevice) {
	speed := r.text(d.Path + "/max_link_speed")
	if speed == nil {
		return
	}
	if v, err := parseLinkSpeed(*speed); err == nil {
		d.MaxSpeedMTs = &v
	} else if !errors.Is(err, errNoValue) {
		r.problem(d.Path+"/max_link_speed", err)
	}
	d.SpeedMTs = parsed(r, d.Path+"/current_link_speed", parseLinkSpeed)
	d.Width = parsed(r, d.Path+"/current_link_width", parsePositive)
	d.MaxWidth = parsed(r, d.Path+"/max_link_width", parsePositive)
}

// pciEndpoint reads what bridges do not have.
func (r *reader) pciEndpoint(d *PCIDevice) {
	d.SubsystemVendor = parsed(r, d.Path+"/subsystem_vendor", parseHex16)
	d.SubsystemDevice = parsed(r, d.Path+"/subsystem_device", parseHex16)
	if v, s := d.SubsystemVendor, d.SubsystemDevice; v != nil && s != nil && *v == 0 && *s == 0 {
		d.SubsystemVendor, d.SubsystemDevice = nil, nil
	}
	d.TotalVFs = parsed(r, d.Path+"/sriov_totalvfs", parseCount)
	if d.TotalVFs != nil {
		d.NumVFs = parsed(r, d.Path+"/sriov_numvfs", parseCount)
		return
	}
	if pf := r.linkBase(d.Path + "/physfn"); pf != nil {
		if a, ok := pciAddress(*pf); ok {
			d.PhysicalFunction = &a
		}
	}
}

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

// pciAddress reads a path element that may be an address. Most are not, which their
// lack of colons shows without parsing.
func pciAddress(element string) (model.PCIAddress, bool) {
	if strings.Count(element, ":") != 2 {
		return model.PCIAddress{}, false
	}
	a, err := model.ParsePCIAddress(element)
	return a, err == nil
}
