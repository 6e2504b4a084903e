// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"plumbline.dev/plumbline/internal/machine/facts"
	"plumbline.dev/plumbline/internal/model"
)

// portKind is the kind of a PCIe function (PCI_EXP_TYPE_* of
// include/uapi/linux/pci_regs.h).
type portKind uint16

const (
	endpoint       portKind = 0x0
	rootPort       portKind = 0x4
	upstreamPort   portKind = 0x5
	downstreamPort portKind = 0x6
)

// function is one PCI function to render: a device of the facts, or a bridge
// that must be there for it.
type function struct {
	address model.PCIAddress
	// dir is its directory below /sys.
	dir       string
	kind      portKind
	class     uint32
	id        facts.PCIID
	numa      *int
	link      *facts.Link
	driver    string
	devices   []*facts.Device // the entries of the facts; empty for a bridge
	secondary uint8           // bus below a bridge
	last      uint8           // highest bus below a bridge
}

// planPCI lists all functions, bridges included, by directory.
//
// The rules: a device on the root's own bus hangs from the root. Behind a
// switch the facts name, each other bus has a downstream port, on the bus after
// the switch's; without one, each bus has a root port. Bridges take the lowest
// device numbers that no device of the facts has.
func planPCI(f *facts.Facts) ([]function, error) {
	groups := map[string]*rootPlan{}
	group := func(name string, published bool) *rootPlan {
		if groups[name] == nil {
			groups[name] = newRootPlan(f, name, published)
		}
		return groups[name]
	}
	for _, r := range f.Roots {
		g := group(r.Name, true)
		g.numa, g.switchUp = r.NUMA, r.SwitchUp
	}
	for _, list := range [][]facts.Device{f.GPUs, f.NICs} {
		for i := range list {
			d := &list[i]
			group(d.SysfsRoot, d.Published()).addDevice(d)
		}
	}
	var out []function
	var errs []error
	for _, g := range groups {
		g.plan()
		out = append(out, g.out...)
		errs = append(errs, g.err)
	}
	slices.SortFunc(out, func(a, b function) int { return cmp.Compare(a.dir, b.dir) })
	return out, errors.Join(errs...)
}

// rootPlan places the functions of one root bus.
type rootPlan struct {
	arch     string
	dir      string
	domain   uint32
	bus      uint8
	numa     *int
	switchUp *model.PCIAddress
	devices  []function
	taken    map[model.PCIAddress]bool
	out      []function
	err      error
}

func newRootPlan(f *facts.Facts, name string, published bool) *rootPlan {
	domain, bus, _ := facts.RootNumbers(name)
	dir := path.Join("devices", name)
	if !published {
		// As Hyper-V's virtual PCI shows it, one bus a device
		// (drivers/pci/controller/pci-hyperv.c).
		guid := fmt.Sprintf("%08x-0000-4000-8000-%012x", domain, bus)
		dir = path.Join("devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00", guid, name)
	}
	return &rootPlan{arch: f.Arch, dir: dir, domain: domain, bus: bus, taken: map[model.PCIAddress]bool{}}
}

// addDevice adds a device; a second entry of one address is its second
// interface.
func (g *rootPlan) addDevice(d *facts.Device) {
	g.taken[d.Address] = true
	for i := range g.devices {
		if g.devices[i].address == d.Address {
			g.devices[i].devices = append(g.devices[i].devices, d)
			return
		}
	}
	id := d.Identity()
	g.devices = append(g.devices, function{
		address: d.Address, class: d.Class, id: id, numa: d.NUMA, link: d.Link,
		driver: driverOf(id, d.Class), devices: []*facts.Device{d},
	})
}

func (g *rootPlan) plan() {
	if g.numa == nil {
		g.numa = g.commonNode()
	}
	byBus := map[uint8][]function{}
	var buses []uint8
	for _, d := range g.devices {
		if byBus[d.address.Bus] == nil {
			buses = append(buses, d.address.Bus)
		}
		byBus[d.address.Bus] = append(byBus[d.address.Bus], d)
	}
	slices.Sort(buses)
	parents := map[uint8]string{g.bus: g.dir}
	if g.switchUp != nil {
		g.taken[*g.switchUp] = true
		g.planSwitch(parents, buses)
	}
	for _, bus := range buses {
		if _, placed := parents[bus]; !placed {
			parents[bus] = g.bridge(rootPort, g.dir, g.bus, bus, bus, fastest(byBus[bus]))
		}
		for _, d := range byBus[bus] {
			d.dir = path.Join(parents[bus], d.address.String())
			g.out = append(g.out, d)
		}
	}
	if len(g.out) == 0 {
		g.bridge(rootPort, g.dir, g.bus, g.bus+1, g.bus+1, nil) // an empty slot shows the root
	}
}

// planSwitch places the switch and a downstream port for each bus behind it.
func (g *rootPlan) planSwitch(parents map[uint8]string, buses []uint8) {
	up := g.switchUp.Bus
	inside := up + 1
	last := inside
	if len(buses) > 0 {
		last = max(last, buses[len(buses)-1])
	}
	link := fastest(g.devices)
	parents[up] = g.bridge(rootPort, g.dir, g.bus, up, last, link)
	dir := path.Join(parents[up], g.switchUp.String())
	g.out = append(g.out, function{
		address: *g.switchUp, dir: dir, kind: upstreamPort, class: bridgeClass, id: switchID,
		numa: g.numa, link: link, driver: "pcieport", secondary: inside, last: last,
	})
	parents[inside] = dir
	for _, bus := range buses {
		if bus > inside {
			var behind []function
			for _, d := range g.devices {
				if d.address.Bus == bus {
					behind = append(behind, d)
				}
			}
			parents[bus] = g.bridge(downstreamPort, dir, inside, bus, bus, fastest(behind))
		}
	}
}

// bridge adds a bridge on a bus at the first free address and returns its
// directory. Bus 0 of a PC has the host bridge at device 0.
func (g *rootPlan) bridge(kind portKind, dir string, bus, secondary, last uint8, link *facts.Link) string {
	address := model.PCIAddress{Domain: g.domain, Bus: bus}
	if bus == 0 {
		address.Device = 1
	}
	for g.taken[address] {
		if address.Device++; address.Device > 31 {
			address.Device = 0
			address.Function++
		}
		if address.Function > 7 {
			g.err = fmt.Errorf("bus %02x of %s has no free address for a bridge", bus, path.Base(g.dir))
			return dir
		}
	}
	g.taken[address] = true
	id := switchID
	if kind == rootPort {
		id = rootPortIDs[g.arch]
	}
	f := function{
		address: address, dir: path.Join(dir, address.String()), kind: kind, class: bridgeClass, id: id,
		numa: g.numa, link: link, driver: "pcieport", secondary: secondary, last: last,
	}
	g.out = append(g.out, f)
	return f.dir
}

// commonNode is the node all devices of the root agree on.
func (g *rootPlan) commonNode() *int {
	var node *int
	for _, d := range g.devices {
		switch {
		case d.numa == nil:
		case node == nil:
			node = d.numa
		case *node != *d.numa:
			return nil
		}
	}
	return node
}

// fastest is the fastest link of some functions; nil when none is known.
func fastest(functions []function) *facts.Link {
	var best *facts.Link
	for _, f := range functions {
		if f.link != nil && (best == nil || f.link.SpeedMTs > best.SpeedMTs) {
			best = f.link
		}
	}
	return best
}
