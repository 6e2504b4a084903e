// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"maps"
	"slices"

	"plumbline.dev/plumbline/internal/model"
)

func (p *parser) checkDevice(f *Facts, section string, d *Device) {
	what := section + " " + d.Label()
	p.checkNode(f, d.line("numa"), what, d.NUMA)
	for _, id := range d.MemoryNodes {
		p.checkNode(f, d.line("gpu_memory_numa"), what+" gpu_memory_numa", &id)
	}
	if d.IBOnly && d.Ifname != "" {
		p.add(d.lines[""], what, "is ib_only, so has no interface, yet ifname says %s", d.Ifname)
	}
	p.checkRoot(f, what, d)
}

// checkRoot completes SysfsRoot and compares it with the address.
func (p *parser) checkRoot(f *Facts, what string, d *Device) {
	if d.Root != "" && d.SysfsRoot != "" && d.Root != d.SysfsRoot {
		p.add(d.line("sysfs_root"), what, "hangs from sysfs_root %s, but its root is %s", d.SysfsRoot, d.Root)
		return
	}
	line := d.line("root")
	_, stated := d.lines["root"]
	switch {
	case d.Root != "":
		d.SysfsRoot = d.Root
	case d.SysfsRoot != "":
		line = d.line("sysfs_root")
	case len(f.Roots) > 0 && !stated:
		p.add(line, what, "says no root: want one of pcie_roots, or null with a sysfs_root")
		return
	default:
		d.SysfsRoot = RootName(d.Address.Domain, d.Address.Bus)
	}
	if d.Root != "" && len(f.Roots) > 0 && !slices.ContainsFunc(f.Roots, func(r RootFacts) bool { return r.Name == d.Root }) {
		p.add(line, what, "root %s is not listed in pcie_roots", d.Root)
	}
	if first, known := p.published[d.SysfsRoot]; known && first != d.Published() {
		p.add(line, what, "says with root or root: null whether %s is published, and an entry before it says otherwise", d.SysfsRoot)
	}
	p.published[d.SysfsRoot] = d.Published()
}

// checkSpan compares an address with its root, which spans the bus numbers up
// to the next root of its domain, listed or only named by a device.
func (p *parser) checkSpan(section string, d *Device) {
	if d.SysfsRoot == "" {
		return // refused before
	}
	what, line := section+" "+d.Label(), d.line("root")
	domain, bus, _ := RootNumbers(d.SysfsRoot)
	if domain != d.Address.Domain || bus > d.Address.Bus {
		p.add(line, what, "%s cannot hang from %s: another domain, or a bus number below the root's", d.Address, d.SysfsRoot)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.published)) {
		if rd, rb, _ := RootNumbers(name); rd == domain && rb > bus && rb <= d.Address.Bus {
			p.add(line, what, "%s cannot hang from %s: root %s lies between them", d.Address, d.SysfsRoot, name)
			return
		}
	}
}

// checkAddresses refuses two functions at one address. Two NICs with one
// address and names of their own are one function with two interfaces.
func (p *parser) checkAddresses(f *Facts) {
	type holder struct {
		what   string
		line   int
		ifname string
	}
	seen := map[model.PCIAddress][]holder{}
	claim := func(a model.PCIAddress, h holder) {
		for _, first := range seen[a] {
			if h.ifname == "" || first.ifname == "" || h.ifname == first.ifname {
				p.add(h.line, h.what, "address %s is taken by %s on line %d", a, first.what, first.line)
				return
			}
		}
		seen[a] = append(seen[a], h)
	}
	for _, r := range f.Roots {
		if r.SwitchUp == nil {
			continue
		}
		line := p.lines["root "+r.Name]
		claim(*r.SwitchUp, holder{what: "switch_up of " + r.Name, line: line})
		p.checkSwitch(line, r)
	}
	for i := range f.GPUs {
		d := &f.GPUs[i]
		claim(d.Address, holder{what: "gpus " + d.Label(), line: d.line("bdf")})
	}
	for i := range f.NICs {
		d := &f.NICs[i]
		claim(d.Address, holder{what: "nics " + d.Label(), line: d.line("bdf"), ifname: d.Ifname})
	}
}

func (p *parser) checkSwitch(line int, r RootFacts) {
	domain, bus, _ := RootNumbers(r.Name)
	if r.SwitchUp.Domain != domain || r.SwitchUp.Bus <= bus || r.SwitchUp.Bus == 0xff {
		p.add(line, "root "+r.Name, "switch_up %s cannot lie below the root: want a bus after it in its domain, and one left for the switch's inside", *r.SwitchUp)
	}
}

func (p *parser) checkNames(f *Facts) {
	seen := map[string]model.PCIAddress{}
	claim := func(kind, name string, d *Device, section string) {
		if name == "" {
			return
		}
		key := kind + " " + name
		if first, taken := seen[key]; taken && (first != d.Address || kind == "ifname") {
			p.add(d.lines[""], fmt.Sprintf("%s %s", section, d.Label()), "%s %s is taken by %s", kind, name, first)
			return
		}
		seen[key] = d.Address
	}
	for i := range f.GPUs {
		claim("name", f.GPUs[i].Name, &f.GPUs[i], "gpus")
	}
	for i := range f.NICs {
		d := &f.NICs[i]
		claim("name", d.Name, d, "nics")
		claim("rdma", d.RDMA, d, "nics")
		claim("ifname", d.Ifname, d, "nics")
	}
}
