// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltopo

import (
	"slices"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Topology is a topology file.
type Topology struct {
	// CPUs are the NUMA nodes in the file's order.
	CPUs []CPU
}

// CPU is a NUMA node as NCCL calls it, <cpu>, with what hangs from it.
type CPU struct {
	// NUMANode is nil for the node of devices whose own is unknown (numaid -1).
	NUMANode *int
	// CPUs is nil where the file does not say (affinity).
	CPUs *cpuset.CPUSet
	// Arch is NCCL's name of the architecture: x86_64, arm64 or ppc64. Vendor is
	// CPUID's. Both are empty where the file does not say; NCCL then asks the CPU.
	Arch, Vendor string
	// FamilyID and ModelID are CPUID's; nil where the file does not say.
	FamilyID, ModelID *int
	Functions         []Function
	// Nets are the network devices that are no PCI functions.
	Nets []Net
}

// Function is a PCI function, <pci>: a switch, a GPU or a NIC.
type Function struct {
	Address model.PCIAddress
	// Class is the 24-bit class code; NCCL itself writes the first byte alone where
	// sysfs does not say more.
	Class uint32
	// Vendor and the others are nil where the file does not say.
	Vendor, Device, SubsystemVendor, SubsystemDevice *uint16
	// SpeedMTs and Width are of the link; zero where the file does not say.
	SpeedMTs, Width int
	// GPU is nil where the file has no <gpu>: NCCL adds it when it runs.
	GPU *GPU
	// Nets are the network devices of the function; empty where the file has no
	// <nic>, which NCCL adds too.
	Nets      []Net
	Functions []Function
}

// GPU is what a file written by NCCL says of a GPU.
type GPU struct {
	// Dev is NVML's index, and SM the compute capability times ten.
	Dev, SM *int
	// C2C: it is joined to the CPU by NVLink-C2C.
	C2C bool
}

// Net is a network device of NCCL, such as mlx5_0.
type Net struct{ Name string }

// IsGPU says whether the function is a GPU.
func (f *Function) IsGPU() bool {
	class := f.Class >> 16
	return f.GPU != nil || class == model.PCIClassDisplay || class == model.PCIClassAccelerator
}

// IsNIC says whether the function is a NIC. NCCL puts a network device below the
// function that does its transfers, which may be of another class (Data Direct).
func (f *Function) IsNIC() bool {
	return len(f.Nets) > 0 || f.Class>>16 == model.PCIClassNetwork
}

// Pair is a GPU and a NIC that no other GPU of the file is nearer to.
type Pair struct {
	GPU model.PCIAddress `json:"gpu"`
	NIC model.PCIAddress `json:"nic"`
	// Switch is the nearest that both are below; nil where they have the NUMA node
	// alone in common.
	Switch *model.PCIAddress `json:"switch,omitempty"`
	// NUMANode is nil when unknown.
	NUMANode *int `json:"numaNode,omitempty"`
}

// Pairs are the pairs of the file, NIC by NIC in the file's order: the GPUs below the
// nearest switch that the NIC is below too, or else those of its NUMA node. A NIC of a
// node that is unknown, and has no switch with a GPU, has none.
func (t *Topology) Pairs() []Pair {
	var pairs []Pair
	for i := range t.CPUs {
		c := &t.CPUs[i]
		for _, nic := range pairsBelow(c.Functions, c.NUMANode, &pairs) {
			if c.NUMANode == nil {
				continue
			}
			for _, gpu := range gpusBelow(c.Functions) {
				pairs = append(pairs, Pair{GPU: gpu, NIC: nic, NUMANode: c.NUMANode})
			}
		}
	}
	return pairs
}

// pairsBelow adds the pairs that a switch among the functions has, and returns the NICs
// that found none.
func pairsBelow(functions []Function, node *int, pairs *[]Pair) (alone []model.PCIAddress) {
	for i := range functions {
		f := &functions[i]
		if f.IsNIC() {
			alone = append(alone, f.Address)
		}
		left := pairsBelow(f.Functions, node, pairs)
		gpus := gpusBelow(f.Functions)
		if len(gpus) == 0 {
			alone = append(alone, left...)
			continue
		}
		for _, nic := range left {
			for _, gpu := range gpus {
				*pairs = append(*pairs, Pair{GPU: gpu, NIC: nic, Switch: &f.Address, NUMANode: node})
			}
		}
	}
	return alone
}

func gpusBelow(functions []Function) (gpus []model.PCIAddress) {
	for i := range functions {
		if functions[i].IsGPU() {
			gpus = append(gpus, functions[i].Address)
		}
		gpus = append(gpus, gpusBelow(functions[i].Functions)...)
	}
	return gpus
}

// OneToOne gives each NIC its one GPU: the only one below its switch, or, where a switch
// has as many NICs as GPUs, the one with the same place among the switch's GPUs, both in
// the order of their addresses. NICs with another share of GPUs, and those that have the
// NUMA node alone in common with any, are left out: nothing tells which GPU is theirs.
func OneToOne(pairs []Pair) map[model.PCIAddress]model.PCIAddress {
	type group struct{ gpus, nics []model.PCIAddress }
	groups := map[model.PCIAddress]*group{}
	for _, p := range pairs {
		if p.Switch == nil {
			continue
		}
		g := groups[*p.Switch]
		if g == nil {
			g = &group{}
			groups[*p.Switch] = g
		}
		g.gpus, g.nics = append(g.gpus, p.GPU), append(g.nics, p.NIC)
	}
	gpuOf := map[model.PCIAddress]model.PCIAddress{}
	for _, g := range groups {
		gpus, nics := sortedOnce(g.gpus), sortedOnce(g.nics)
		for i, nic := range nics {
			switch {
			case len(gpus) == 1:
				gpuOf[nic] = gpus[0]
			case len(gpus) == len(nics):
				gpuOf[nic] = gpus[i]
			}
		}
	}
	return gpuOf
}

func sortedOnce(addresses []model.PCIAddress) []model.PCIAddress {
	slices.SortFunc(addresses, model.PCIAddress.Compare)
	return slices.Compact(addresses)
}
