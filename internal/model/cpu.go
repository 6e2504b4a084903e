// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import "k8s.io/utils/cpuset"

// NUMANode is one memory node (/sys/devices/system/node/nodeN). It may have no
// CPUs: on Grace most nodes are memory only.
type NUMANode struct {
	ID int
	// CPUs are the online CPUs of the node; empty on a memory-only node.
	CPUs cpuset.CPUSet
	// MemoryBytes is MemTotal; nil when meminfo does not say.
	MemoryBytes *uint64
	// Distances are the ACPI SLIT distances by node ID, 10 to itself; nil when
	// the kernel reports none.
	Distances map[int]int
}

// CPU is one logical CPU (/sys/devices/system/cpu/cpuN).
type CPU struct {
	ID     int
	Online bool
	// Core is the machine-wide identity of the physical core. An offline CPU
	// has none.
	Core *CoreID
	// NUMANode is nil where no node lists the CPU.
	NUMANode *int
	// L3 is the cache's id, unique within the machine; nil without an L3.
	L3 *int
	// Siblings are the threads of the same core, this CPU included; empty when
	// offline.
	Siblings cpuset.CPUSet
}

// CoreID identifies a physical core. The kernel's core_id alone repeats in
// every package, so the whole tuple is the identity
// (Documentation/admin-guide/cputopology.rst).
type CoreID struct {
	Package, Die, Cluster, Core int
}
