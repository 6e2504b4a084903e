// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"

	"k8s.io/utils/cpuset"
)

// NUMANode is one memory node (/sys/devices/system/node/nodeN). It may have no
// CPUs: on Grace most nodes are memory only.
type NUMANode struct {
	ID int
	// CPUs are the online CPUs of the node; empty on a memory-only node.
	CPUs cpuset.CPUSet
	// Socket is the package of all its CPUs (cpuN/topology/physical_package_id);
	// nil where they tell none, or several.
	Socket *int
	// MemoryBytes is MemTotal; nil when meminfo does not say.
	MemoryBytes *uint64
	// Distances are the ACPI SLIT distances by node ID, 10 to itself; nil when
	// the kernel reports none.
	Distances map[int]int
	// Hugepages are the pools of huge pages, by size; nil where there are none.
	Hugepages []HugepagePool
}

// HugepagePool is the node's huge pages of one size
// (nodeN/hugepages/hugepages-*kB/nr_hugepages). How many of them are free changes all
// the time, and is not part of the model.
type HugepagePool struct {
	PageBytes int64
	Pages     int64
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
	// Type is the kind of the core; empty where all cores of the machine are
	// alike.
	Type CoreType
}

// CoreType is a kind of core.
type CoreType string

// The kinds of cores. Those of a machine whose cores are all alike are standard.
const (
	StandardCore    CoreType = "standard"
	PerformanceCore CoreType = "p-core"
	EfficiencyCore  CoreType = "e-core"
)

// CoreType is the kind of the CPU's core, standard where nothing else is known.
func (c *CPU) CoreType() CoreType { return cmp.Or(c.Type, StandardCore) }

// CoreID identifies a physical core. The kernel's core_id alone repeats in
// every package, so the whole tuple is the identity
// (Documentation/admin-guide/cputopology.rst).
type CoreID struct {
	Package, Die, Cluster, Core int
}
