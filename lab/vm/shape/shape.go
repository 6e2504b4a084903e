// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"

	"plumbline.dev/plumbline/internal/model"
)

// Shape is the hardware of one machine as its machine file has it.
type Shape struct {
	// Name is the machine's name, such as "a3-ultragpu-8g".
	Name string
	// Arch is "x86_64" or "aarch64".
	Arch string
	// Sockets is the number of processor packages.
	Sockets int
	// ThreadsPerCore is 2 with simultaneous multithreading, else 1.
	ThreadsPerCore int
	// Nodes are the NUMA nodes in the order of their ids.
	Nodes []Node
	// Roots are the PCIe root buses.
	Roots []Root
	// Devices are the GPUs and NICs.
	Devices []Device
}

// Node is one NUMA node.
type Node struct {
	// ID is the kernel's number of the node.
	ID int
	// Socket is the package its CPUs belong to, counted from zero.
	Socket int
	// CPUs is how many logical CPUs it has: none on a memory-only node.
	CPUs int
}

// Root is one PCIe root bus.
type Root struct {
	// Domain and Bus are the two numbers of a name like "pci0000:8c".
	Domain uint32
	Bus    uint8
	// Node is the NUMA node it is local to; nil where it is unknown.
	Node *int
	// SwitchUp is the upstream port of the switch below the root; nil where
	// there is none.
	SwitchUp *model.PCIAddress
}

// ParseRoot reads a root bus name as sysfs has it.
func ParseRoot(name string) (domain uint32, bus uint8, err error) {
	var trailer string
	n, _ := fmt.Sscanf(name+" .", "pci%04x:%02x %s", &domain, &bus, &trailer)
	if n != 3 || (Root{Domain: domain, Bus: bus}).Name() != name {
		return 0, 0, fmt.Errorf("parse PCIe root %q: want a name like pci0000:8c", name)
	}
	return domain, bus, nil
}

// Name is the root's folder name in sysfs, such as "pci0000:8c".
func (r Root) Name() string { return fmt.Sprintf("pci%04x:%02x", r.Domain, r.Bus) }

// Kind is what stands in for a device.
type Kind int

// The kinds of device a machine file lists.
const (
	GPU Kind = iota + 1
	NIC
)

// Device is one PCI function of the machine.
type Device struct {
	Kind Kind
	// Name is how the machine file calls it: name, rdma or ifname.
	Name string
	// Address is its PCI address.
	Address model.PCIAddress
	// Root is the name of the PCIe root it hangs from in sysfs.
	Root string
	// BelowVMBus is set where the root is no child of /sys/devices itself
	// but of a Hyper-V bus.
	BelowVMBus bool
	// Node is the NUMA node; nil where it is unknown.
	Node *int
	// Model is what the real device calls itself, such as "NVIDIA H200".
	Model string
	// Interface is a NIC's network interface name; empty where it is unknown.
	Interface string
	// RDMA is the name of a NIC's RDMA device; empty when it has none.
	RDMA string
	// MTU is a NIC's, in bytes; zero where it is unknown.
	MTU int
	// Network is the cloud's that a NIC is in; empty where it is unknown.
	Network string
	// NoInterface is set on a NIC without a network interface (ib_only).
	NoInterface bool
	// SRIOV is set on a NIC that can have virtual functions.
	SRIOV bool
}

// String names the device in messages.
func (d Device) String() string { return fmt.Sprintf("%s at %s", d.Name, d.Address) }
