// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import "net/netip"

// DeviceID names a device of a node as its driver publishes it.
type DeviceID struct {
	Driver string `json:"driver"`
	Name   string `json:"name"`
}

// NIC is one network device as a claim can hold it: a network interface, an
// RDMA device, or both. A PCI function with two interfaces is two NICs.
type NIC struct {
	// PCI is nil for an interface that is no PCI function.
	PCI *PCIAddress `json:"pci,omitempty"`
	// Port distinguishes the interfaces of one function: nil on the first, then
	// "p<dev_port>", stable over reboots (Documentation/ABI/testing/sysfs-class-net).
	Port *string `json:"port,omitempty"`
	// Interface is nil for an RDMA device without a network interface.
	Interface *Interface `json:"interface,omitempty"`
	// RDMA is nil where there is no RDMA device.
	RDMA *RDMADevice `json:"rdma,omitempty"`
	// NUMANode is nil when unknown.
	NUMANode *int `json:"numaNode,omitempty"`
	// Withheld says why the NIC must never be offered, such as "carries the
	// default route"; nil when it may be.
	Withheld *string `json:"withheld,omitempty"`
	// WithheldForVFs: it is for its virtual functions alone that it is withheld. The node
	// itself does not need it.
	WithheldForVFs bool `json:"-"`
	// Share is how it is offered to many pods at once; nil where it is offered whole.
	Share *Share `json:"share,omitempty"`
	// Simulated marks a stand-in, and says of what and by what.
	Simulated *string `json:"simulated,omitempty"`
	// Published is the device that this was read from; nil where the host was.
	Published *DeviceID `json:"published,omitempty"`
	// GPUDirect says whether its RDMA reaches the memory of the host's GPUs; nil where
	// there is nothing to reach or nobody can tell. It is the host's software that
	// decides, so that no record keeps it.
	GPUDirect *bool `json:"-"`
	// PairedGPU is the GPU that the NIC belongs to where the PCIe tree does not show it:
	// a topology file or the machine file says so. Nil where nobody does.
	PairedGPU *PCIAddress `json:"pairedGPU,omitempty"`
	// DataDirect is the function by which the NIC reaches the memory of GPUs below
	// another root than its own (ConnectX-8 Data Direct); nil where there is none, or
	// nobody can tell.
	DataDirect *PCIAddress `json:"dataDirect,omitempty"`
	// DataDirectAsRoot says that claims compare the NIC by the PCIe root of DataDirect.
	// It is the administrator's choice, so that no record keeps it.
	DataDirectAsRoot bool `json:"-"`
	// Attributes are what a cloud's metadata says of the NIC, by name with
	// domain, such as gce.dra.net/networkName; nil for none. The host's own facts are
	// in the fields above, never here.
	Attributes map[string]Attribute `json:"attributes,omitempty"`
}

// IPoIB says whether the NIC's interface is one over InfiniBand, which lasts as long as
// its RDMA device is where it is.
func (n *NIC) IPoIB() bool {
	return n.Interface != nil && n.Interface.Encapsulation != nil && *n.Interface.Encapsulation == "infiniband"
}

// Interface is a network interface (/sys/class/net/*), with what only netlink
// tells.
type Interface struct {
	Name string `json:"name"`
	// Index is the ifindex; a hint only, it changes with each move.
	Index int `json:"index"`
	// MAC is the current hardware address, lower case; nil without one.
	MAC *string `json:"mac,omitempty"`
	// PermanentMAC is the burned-in address (netlink IFLA_PERM_ADDRESS); nil
	// when unknown.
	PermanentMAC *string `json:"permanentMAC,omitempty"`
	MTU          *int    `json:"mtu,omitempty"`
	// Up is whether an administrator set it up (IFF_UP), whatever the carrier;
	// nil when unknown.
	Up *bool `json:"up,omitempty"`
	// State is operstate: up, down, unknown, dormant, lowerlayerdown.
	State *string `json:"state,omitempty"`
	// Encapsulation is the link layer: ether, infiniband, loopback.
	Encapsulation *string `json:"encapsulation,omitempty"`
	// Kind is netlink's IFLA_INFO_KIND: veth, vlan, bridge; nil for hardware.
	Kind  *string `json:"kind,omitempty"`
	Alias *string `json:"alias,omitempty"`
	// Virtual is true below /sys/devices/virtual.
	Virtual bool `json:"virtual,omitempty"`
	// SpeedMbps is the link's speed in Mbit/s; nil when down or unknown.
	SpeedMbps *int `json:"speedMbps,omitempty"`
	// Addresses are the global ones, sorted.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Programs are the eBPF programs on it; nil when they were not read.
	Programs *Programs `json:"programs,omitempty"`
}

// Programs are the eBPF programs that see an interface's packets.
type Programs struct {
	// Attached: there is one, whatever its name.
	Attached bool `json:"attached,omitempty"`
	// Filters are the names of tc's filters that are programs (TCA_BPF_NAME), and
	// TCX those of the programs of tcx; sorted, each once, and no more than an
	// attribute has room for.
	Filters []string `json:"filters,omitempty"`
	TCX     []string `json:"tcx,omitempty"`
}

// RDMADevice is an RDMA device (/sys/class/infiniband/*).
type RDMADevice struct {
	// Name is empty only where it was read from a ResourceSlice that does not
	// say it.
	Name string `json:"name"`
	// LinkLayer is that of port 1: InfiniBand or Ethernet.
	LinkLayer *string `json:"linkLayer,omitempty"`
	// CharDevices are paths such as /dev/infiniband/uverbs0.
	CharDevices []string `json:"charDevices,omitempty"`
	// Software is true for a device that runs on an interface instead of
	// hardware (rdma_rxe, siw): the kernel deletes it, and its character
	// devices, when that interface changes its network namespace
	// (drivers/infiniband/sw/rxe/rxe_net.c, rxe_notify).
	Software bool `json:"software,omitempty"`
	// HostInterface is the IPoIB interface of the device that stays on the host
	// while a pod has the device; nil where none does.
	HostInterface *string `json:"hostInterface,omitempty"`
}

// GPU is one GPU or other accelerator.
type GPU struct {
	// Index is the n of gpu-<n>: PCI order.
	Index int
	PCI   PCIAddress
	// ProductName is the vendor library's, such as "NVIDIA H200".
	ProductName string
	// MemoryBytes is nil when unknown.
	MemoryBytes *uint64
	// NUMANode is nil when unknown.
	NUMANode *int
	// UUID, Architecture, Brand, DriverVersion, CUDAVersion and
	// ComputeCapability are nil when unknown.
	UUID, Architecture, Brand                     *string
	DriverVersion, CUDAVersion, ComputeCapability *string
	// Published is the device that this was read from; nil where the host was.
	Published *DeviceID
	// DeviceNodes are the files a container gets, such as /dev/dri/card0.
	DeviceNodes []string
	// Simulated marks a stand-in, and says of what and by what, such as
	// "bochs-display as NVIDIA H200".
	Simulated *string
}
