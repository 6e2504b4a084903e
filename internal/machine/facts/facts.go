// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Facts is what a facts file says about one machine (machines/README.md).
// A nil pointer is a value that the file lacks; Parse has checked that the rest does
// not contradict itself.
type Facts struct {
	// Name identifies the machine, such as "a3-ultragpu-8g".
	Name string
	// Provider is who offers it, such as "gcp"; empty when not said.
	Provider string
	// InstanceType is the provider's own name of the machine, as its metadata
	// server spells it, such as "p4d.24xlarge"; empty when not said.
	InstanceType string
	// Arch is uname's: x86_64 or aarch64.
	Arch string
	// Virtual is true for a virtual machine; nil when not said.
	Virtual *bool
	CPU     CPUFacts
	// NUMA lists every node by ID, those of memory_only_nodes included.
	NUMA []NodeFacts
	// Roots lists the PCI root buses in the file's order; empty where only the
	// devices name roots.
	Roots []RootFacts
	// GPUs and NICs are in the file's order. GPUs has every accelerator.
	GPUs []Device
	NICs []Device
	// Kubernetes is what its Kubernetes node has besides the hardware.
	Kubernetes KubernetesFacts
}

// CPUFacts is the cpu section.
type CPUFacts struct {
	Sockets   *int
	NUMANodes *int
	// CPUs counts logical CPUs of the whole machine.
	CPUs *int
	// SMT is threads per core.
	SMT *int
	// SNC is true where a socket has several NUMA nodes.
	SNC *bool
}

// NodeFacts is one NUMA node.
type NodeFacts struct {
	ID int
	// CPUs is nil when unknown, and empty on a node that has none.
	CPUs *cpuset.CPUSet
	// Socket is nil where it follows from the order of the nodes with CPUs.
	Socket *int
}

// MemoryOnly is true of a node known to have no CPUs.
func (n NodeFacts) MemoryOnly() bool { return n.CPUs != nil && n.CPUs.IsEmpty() }

// RootFacts is one PCI root bus.
type RootFacts struct {
	// Name is the directory's name in sysfs, such as "pci0000:8c".
	Name string
	NUMA *int
	// SwitchUp is the address of the upstream port of the switch below the
	// root; nil where there is none.
	SwitchUp *model.PCIAddress
	// Holds describes the devices below it; often empty.
	Holds string
}

// Device is one entry of gpus or nics, with the common values filled in.
type Device struct {
	// Name, RDMA and Ifname are the entry's names; at least one is set. An
	// empty RDMA means no RDMA device. An empty Ifname means that the interface's
	// name is unknown, or that there is no interface (IBOnly).
	Name, RDMA, Ifname string
	Address            model.PCIAddress
	// Root is the root that the upstream helper publishes as pcieRoot; empty
	// where it publishes none.
	Root string
	// SysfsRoot is the root the device hangs from in sysfs, never empty. Where
	// Root is empty, it lies below the VMBUS and not below /sys/devices.
	SysfsRoot string
	NUMA      *int
	// Class is the 24-bit class code. Where the file gives none it is 0x030200
	// for a GPU and 0x020000 for a NIC.
	Class uint32
	ID    *PCIID
	// Model is the product's name; empty when not said.
	Model string
	Link  *Link
	// SpeedMbps is the network speed (gbps) in Mbit/s.
	SpeedMbps *int
	MTU       *int
	MemoryMiB *uint64
	// MemoryNodes are the NUMA nodes the GPU's own memory appears as.
	MemoryNodes []int
	// IBOnly is true where the function has no network interface.
	IBOnly bool
	// NIC is the label of the NIC that a GPU belongs to; empty when not said.
	NIC string
	// Role is management, storage or fabric; empty when not said.
	Role string
	// Network is the name of the cloud's network a NIC is on, such as
	// tpu-net-1; empty when not said.
	Network string

	lines map[string]int
}

// PCIID is the pair vendor:device, such as 10de:2335.
type PCIID struct{ Vendor, Device uint16 }

// Link is a PCIe link.
type Link struct {
	// SpeedMTs is in megatransfers per second: 32000 is "32.0 GT/s".
	SpeedMTs int
	// Width is in lanes; 0 when not said.
	Width int
}

// Label names a device for people: its first name, such as "gpu-0" or "mlx5_0".
func (d *Device) Label() string {
	for _, s := range []string{d.Name, d.RDMA, d.Ifname} {
		if s != "" {
			return s
		}
	}
	return d.Address.String()
}

// Published says whether the upstream helper publishes the device's root.
func (d *Device) Published() bool { return d.Root != "" }

// PairedGPU is the GPU that belongs to the NIC at an address, where the two have no
// published root in common that would show it; nil where the file does not say, or names
// the NIC at several GPUs.
func (f *Facts) PairedGPU(nic model.PCIAddress) *model.PCIAddress {
	at := slices.IndexFunc(f.NICs, func(d Device) bool { return d.Address == nic })
	if at < 0 {
		return nil
	}
	var found *model.PCIAddress
	for i := range f.GPUs {
		g, n := &f.GPUs[i], &f.NICs[at]
		if g.NIC == "" || g.NIC != n.Label() || n.Published() && n.Root == g.Root {
			continue
		}
		if found != nil {
			return nil
		}
		found = &g.Address
	}
	return found
}
