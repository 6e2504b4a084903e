// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// check refuses parts that contradict each other, and fills in what follows from
// them: the order of the nodes, and the sysfs root of each device.
func (p *parser) check(f *Facts) {
	if f.Name == "" {
		p.add(p.lines[""], "name", "is missing")
	}
	if f.Arch != "x86_64" && f.Arch != "aarch64" {
		p.add(p.lines[""], "arch", "%q: want x86_64 or aarch64", f.Arch)
	}
	slices.SortFunc(f.NUMA, func(a, b NodeFacts) int { return cmp.Compare(a.ID, b.ID) })
	p.checkNodes(f)
	p.checkCPUs(f)
	for _, r := range f.Roots {
		p.checkNode(f, p.lines["root "+r.Name], "root "+r.Name, r.NUMA)
	}
	p.published = map[string]bool{}
	for _, r := range f.Roots {
		p.published[r.Name] = true
	}
	for i := range f.GPUs {
		p.checkDevice(f, "gpus", &f.GPUs[i])
	}
	for i := range f.NICs {
		p.checkDevice(f, "nics", &f.NICs[i])
	}
	for i := range f.GPUs {
		p.checkSpan("gpus", &f.GPUs[i])
	}
	for i := range f.NICs {
		p.checkSpan("nics", &f.NICs[i])
	}
	p.checkAddresses(f)
	p.checkNames(f)
}

func (p *parser) checkNodes(f *Facts) {
	if len(f.NUMA) == 0 {
		p.add(p.lines[""], "numa", "lists no node; every machine has at least one")
		return
	}
	if n := f.CPU.NUMANodes; n != nil && *n != len(f.NUMA) {
		p.add(p.lines["cpu"], "cpu.numa_nodes", "says %d, but numa and cpu.memory_only_nodes list %d", *n, len(f.NUMA))
	}
	withCPUs := 0
	for _, node := range f.NUMA {
		if !node.MemoryOnly() {
			withCPUs++
		}
		if node.Socket != nil && f.CPU.Sockets != nil && *node.Socket >= *f.CPU.Sockets {
			p.add(p.lines[nodeKey(node.ID)], "numa", "NUMA node %d is on socket %d, but the machine has sockets 0-%d", node.ID, *node.Socket, *f.CPU.Sockets-1)
		}
	}
	if withCPUs == 0 {
		p.add(p.lines[""], "numa", "no node has CPUs")
	}
	p.checkClustering(f.CPU, withCPUs)
}

// checkClustering compares cpu.snc with the counts.
func (p *parser) checkClustering(c CPUFacts, withCPUs int) {
	if c.Sockets == nil || c.SNC == nil {
		return
	}
	if *c.SNC && withCPUs <= *c.Sockets {
		p.add(p.lines["cpu"], "cpu.snc", "says several NUMA nodes per socket, but %d nodes with CPUs stand against %d sockets", withCPUs, *c.Sockets)
	}
	if !*c.SNC && withCPUs > *c.Sockets {
		p.add(p.lines["cpu"], "cpu.snc", "says one NUMA node per socket, but %d nodes with CPUs stand against %d sockets", withCPUs, *c.Sockets)
	}
}

func (p *parser) checkCPUs(f *Facts) {
	owner := map[int]int{} // node by CPU
	unlisted := 0
	for _, node := range f.NUMA {
		if node.CPUs == nil {
			unlisted++
			continue
		}
		line := p.lines[nodeKey(node.ID)]
		shared := map[int][]int{} // CPUs by the other node
		for _, id := range node.CPUs.UnsortedList() {
			if other, taken := owner[id]; taken {
				shared[other] = append(shared[other], id)
			}
			owner[id] = node.ID
		}
		for other, ids := range shared {
			p.add(line, "numa", "CPUs %s of NUMA node %d also belong to node %d", cpuset.New(ids...), node.ID, other)
		}
		if smt := f.CPU.SMT; smt != nil && node.CPUs.Size()%*smt != 0 {
			p.add(line, "numa", "the %d CPUs of NUMA node %d are no whole cores of %d threads (cpu.smt)", node.CPUs.Size(), node.ID, *smt)
		}
	}
	listed := len(owner)
	cpus := f.CPU.CPUs
	switch {
	case cpus == nil:
	case unlisted == 0 && *cpus != listed:
		p.add(p.lines["cpu"], "cpu.cpus", "says %d, but the NUMA nodes list %d", *cpus, listed)
	case *cpus < listed:
		p.add(p.lines["cpu"], "cpu.cpus", "says %d, but the NUMA nodes already list %d", *cpus, listed)
	case *cpus-listed < unlisted*ptr.Deref(f.CPU.SMT, 1):
		p.add(p.lines["cpu"], "cpu.cpus", "%d CPUs leave less than a core for each of the %d nodes whose CPUs are unknown", *cpus, unlisted)
	case f.CPU.SMT != nil && *cpus%*f.CPU.SMT != 0:
		p.add(p.lines["cpu"], "cpu.cpus", "%d CPUs are no whole cores of %d threads", *cpus, *f.CPU.SMT)
	}
}

func (p *parser) checkNode(f *Facts, line int, what string, node *int) {
	if node != nil && !slices.ContainsFunc(f.NUMA, func(n NodeFacts) bool { return n.ID == *node }) {
		p.add(line, what, "NUMA node %d does not exist; there are %s", *node, nodeIDs(f))
	}
}

func nodeIDs(f *Facts) string {
	ids := make([]int, len(f.NUMA))
	for i, n := range f.NUMA {
		ids[i] = n.ID
	}
	return cpuset.New(ids...).String()
}

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

// checkSpan refuses an address outside its root's bus numbers, which end before the next
// root of its domain, listed or only named by a device.
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

// checkAddresses refuses two functions at one address. Two NICs with one address and
// different names are one function with two interfaces.
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
