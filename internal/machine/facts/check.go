// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"slices"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"
)

// check compares the parts with each other and completes what follows from
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
