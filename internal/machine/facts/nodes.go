// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"
)

// Node is one NUMA node, with assumed values where the file has none.
type Node struct {
	ID int
	// Socket is the CPU package the node belongs to; that of a memory-only
	// node is the one it lies nearest to.
	Socket int
	CPUs   cpuset.CPUSet
	// Cores lists the node's physical cores, each with its threads in order.
	Cores [][]int
	// MemoryOnly is true of a node without CPUs.
	MemoryOnly bool
	// Assumed is true where the file did not say which CPUs the node has.
	Assumed bool
}

// Nodes has sockets, CPUs and cores of every node, by ID. Where the file does not say,
// sockets follow from the order, and CPUs are an equal share of the rest, numbered as
// firmware does: first threads of all cores, then the second ones; without a count
// either, each node gets one core.
func (f *Facts) Nodes() []Node {
	smt := ptr.Deref(f.CPU.SMT, 1)
	nodes := make([]Node, len(f.NUMA))
	withCPUs, memoryOnly := 0, 0
	for _, n := range f.NUMA {
		if n.MemoryOnly() {
			memoryOnly++
		} else {
			withCPUs++
		}
	}
	sockets := ptr.Deref(f.CPU.Sockets, min(withCPUs, 1))
	assumed := f.assumedCPUs(smt)
	cpuRank, memoryRank := 0, 0
	for i, n := range f.NUMA {
		node := Node{ID: n.ID, MemoryOnly: n.MemoryOnly(), Assumed: n.CPUs == nil}
		if node.MemoryOnly {
			node.Socket = memoryRank * sockets / memoryOnly
			memoryRank++
		} else {
			node.Socket = cpuRank * sockets / withCPUs
			cpuRank++
		}
		node.Socket = ptr.Deref(n.Socket, node.Socket)
		node.CPUs = assumed[n.ID]
		if n.CPUs != nil {
			node.CPUs = *n.CPUs
		}
		node.Cores = cores(node.CPUs.List(), smt)
		nodes[i] = node
	}
	return nodes
}

// assumedCPUs shares out the CPUs that no node lists.
func (f *Facts) assumedCPUs(smt int) map[int]cpuset.CPUSet {
	var open []int
	var listed []int
	for _, n := range f.NUMA {
		if n.CPUs == nil {
			open = append(open, n.ID)
		} else {
			listed = append(listed, n.CPUs.UnsortedList()...)
		}
	}
	known := cpuset.New(listed...)
	out := make(map[int]cpuset.CPUSet, len(open))
	if len(open) == 0 {
		return out
	}
	total := ptr.Deref(f.CPU.CPUs, known.Size()+len(open)*smt)
	var free []int
	for id := 0; len(free) < total-known.Size(); id++ {
		if !known.Contains(id) {
			free = append(free, id)
		}
	}
	perThread := len(free) / smt
	for i, node := range open {
		var mine []int
		for thread := range smt {
			mine = append(mine, free[thread*perThread+i*perThread/len(open):thread*perThread+(i+1)*perThread/len(open)]...)
		}
		out[node] = cpuset.New(mine...)
	}
	return out
}

// cores pairs threads as firmware numbers them: of n CPUs in order, the first
// n/smt are first threads, the next n/smt their siblings ("0-55,112-167" is
// core 0 with CPUs 0 and 112, and so on).
func cores(cpus []int, smt int) [][]int {
	n := len(cpus) / smt
	out := make([][]int, n)
	for c := range n {
		for thread := range smt {
			out[c] = append(out[c], cpus[thread*n+c])
		}
	}
	return out
}
