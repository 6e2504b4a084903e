// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// APIVersion and Kind identify the JSON form. Within a version fields are only
// added.
const (
	APIVersion = "plumbline.dev/v1alpha1"
	Kind       = "Topology"
)

// Topology is a machine arranged for reading. Absent values are left out.
type Topology struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name is the machine file's, the host's or the node's.
	Name string `json:"name"`
	// Source says where the facts come from, in words.
	Source       string `json:"source,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	Counts       Counts `json:"counts"`
	// Capacity is what is free for claims.
	Capacity FreeCapacity `json:"room"`
	// HoldersKnown says whether Claims are all there are: then Capacity is what is
	// left, else what the machine has.
	HoldersKnown bool     `json:"holdersKnown,omitempty"`
	Sockets      []Socket `json:"sockets"`
	// MemoryOnly are the NUMA nodes with neither CPUs nor devices.
	MemoryOnly *MemoryOnly `json:"memoryOnlyNodes,omitempty"`
	// Unplaced is everything whose NUMA node is unknown.
	Unplaced *Node `json:"withoutNUMANode,omitempty"`
	// Claims are those that hold something, by namespace and name, and the pods that
	// have something of a device plugin, without a claim.
	Claims []Claim `json:"claims,omitempty"`
	// Notes are what a reader must know to read the rest rightly.
	Notes []string `json:"notes,omitempty"`
}

// Counts are the totals of a machine.
type Counts struct {
	Sockets   int `json:"sockets"`
	NUMANodes int `json:"numaNodes"`
	CPUs      int `json:"cpus"`
	GPUs      int `json:"gpus"`
	// Accelerators are those no driver offers as a GPU.
	Accelerators int `json:"accelerators,omitempty"`
	NICs         int `json:"nics"`
	Roots        int `json:"pcieRoots"`
}

// Socket is one CPU package and its NUMA nodes.
type Socket struct {
	// IDs are the package's number (physical_package_id): none when unknown,
	// several when the firmware gives them one NUMA node together.
	IDs   []int  `json:"ids"`
	Nodes []Node `json:"numaNodes"`
}

// Node is one NUMA node, or with a nil ID the things that are on none.
type Node struct {
	ID *int `json:"id,omitempty"`
	// CPUs is a cpulist such as "0-55,112-167" of the online CPUs.
	CPUs     string `json:"cpus,omitempty"`
	CPUCount int    `json:"cpuCount,omitempty"`
	// Reserved is a cpulist of those among CPUs that no claim can have, and
	// ReservedCount how many they are.
	Reserved      string `json:"reservedCPUs,omitempty"`
	ReservedCount int    `json:"reservedCount,omitempty"`
	// CPUDevice is the published device, such as "cpudevnuma000"; empty where
	// there are several.
	CPUDevice string  `json:"cpuDevice,omitempty"`
	Cores     []Core  `json:"cores,omitempty"`
	MemoryMiB *uint64 `json:"memoryMiB,omitempty"`
	// Distances are SLIT distances by node ID, 10 to itself.
	Distances map[int]int `json:"distances,omitempty"`
	// Holds are the claims that hold CPUs of the node.
	Holds []CPUHold `json:"cpuHolds,omitempty"`
	Roots []Root    `json:"pcieRoots,omitempty"`
	// Devices are those that hang from no PCIe root.
	Devices []Device `json:"devices,omitempty"`
}

// Core is one physical core.
type Core struct {
	// CPUs are its threads, ascending.
	CPUs []int `json:"cpus"`
	// L3 is the cache the core shares with others.
	L3 *int `json:"l3,omitempty"`
	// Claims are the keys of the claims that hold each thread, in the order of
	// CPUs; "" for a free one. Absent when all are free.
	Claims []string `json:"claims,omitempty"`
	// Reserved are the threads that no claim can have.
	Reserved []int `json:"reserved,omitempty"`
}

// CPUHold is a claim's share of a node's CPUs.
type CPUHold struct {
	Claim string `json:"claim"`
	// Device is the published device; empty where the share is of several.
	Device string `json:"device,omitempty"`
	Count  int    `json:"count"`
	// CPUs is the cpulist; empty when only the count is known.
	CPUs string `json:"cpus,omitempty"`
}

// Root is a PCIe root bus.
type Root struct {
	Name string `json:"name"`
	// Published says whether devices below carry the attribute
	// resource.kubernetes.io/pcieRoot.
	Published bool `json:"published"`
	Branch
}

// Branch is what hangs from a root bus or a bridge.
type Branch struct {
	Devices []Device `json:"devices,omitempty"`
	Bridges []Bridge `json:"bridges,omitempty"`
}

// Bridge is a PCI bridge where paths part. Bridges that lead to one device
// only are left out.
type Bridge struct {
	Address string `json:"address"`
	// Kind is "switch" for a PCIe switch, else "bridge".
	Kind string `json:"kind"`
	Link *Link  `json:"link,omitempty"`
	Branch
}

// Link is a PCIe link as it is trained.
type Link struct {
	// MTs is megatransfers per second: 32000 is 32.0 GT/s. Zero: unknown.
	MTs int `json:"megatransfersPerSecond,omitempty"`
	// Width is lanes; zero: unknown.
	Width int `json:"width,omitempty"`
	// Degraded is true where the link could do more.
	Degraded bool `json:"degraded,omitempty"`
}

// Kinds of devices.
const (
	KindGPU         = "gpu"
	KindAccelerator = "accelerator"
	KindNIC         = "nic"
	KindDisplay     = "display"
	KindNetwork     = "network"
	KindStorage     = "storage"
)

// Device is one GPU, NIC or other device worth a place in the picture.
type Device struct {
	Kind string `json:"kind"`
	// Driver and Name are as in a ResourceSlice; empty for a device that no
	// driver offers.
	Driver string `json:"driver,omitempty"`
	Name   string `json:"name,omitempty"`
	// Address is the PCI address.
	Address string `json:"address,omitempty"`
	// Model is the product.
	Model string `json:"model,omitempty"`
	// Interface and RDMA are a NIC's names in the kernel.
	Interface string `json:"interface,omitempty"`
	RDMA      string `json:"rdma,omitempty"`
	// RDMAUnnamed is true where it has an RDMA device, and its driver does not
	// say what that is called.
	RDMAUnnamed bool `json:"rdmaUnnamed,omitempty"`
	// NetworkMbps is the speed of a NIC's link in Mbit/s.
	NetworkMbps int     `json:"networkMbps,omitempty"`
	MemoryMiB   *uint64 `json:"memoryMiB,omitempty"`
	Link        *Link   `json:"link,omitempty"`
	NUMANode    *int    `json:"numaNode,omitempty"`
	// Misplaced is true where the device names another node than its root.
	Misplaced bool `json:"misplaced,omitempty"`
	// Passthrough is the kernel driver that the device is bound to if that is one for
	// virtual machines, such as vfio-pci: nothing on the host can use it.
	Passthrough string `json:"passthrough,omitempty"`
	// Withheld says why the device is never offered.
	Withheld string `json:"withheld,omitempty"`
	// Simulated says what stands in for what.
	Simulated string `json:"simulated,omitempty"`
	// Claims are the keys of the claims that hold the device, or a part of it, and of
	// the pods that have it of a device plugin.
	Claims []string `json:"claims,omitempty"`
	// Plugged are those of Claims that are pods.
	Plugged []string `json:"devicePluginPods,omitempty"`
	// Resource is the extended resource by which a device plugin offers the device, such
	// as nvidia.com/gpu; empty where none does, or nobody can tell.
	Resource string `json:"extendedResource,omitempty"`
	// Owners are set where several give the device away, each not knowing what the
	// others gave: a DRA driver, and the extended resource of a device plugin.
	Owners []string `json:"owners,omitempty"`
	// Parts are those of a GPU that there are, and those that claims hold, such as MIG
	// devices; Profiles what more it can be split into on demand.
	Parts    []Part   `json:"parts,omitempty"`
	Profiles []string `json:"profiles,omitempty"`
	// SharedBy is how many pods, or claims of no pod, have the same GPU as a whole, or a
	// share of the NIC; 0 for one or none.
	SharedBy int `json:"sharedBy,omitempty"`
	// Shared is true where several claims can hold the device at once, UsedUp where they
	// have all of it among them.
	Shared bool `json:"shared,omitempty"`
	UsedUp bool `json:"usedUp,omitempty"`
	// Slots and Bandwidth are what claims have of a NIC that is shared; nil of others, and
	// Bandwidth where none is offered.
	Slots     *Share `json:"slots,omitempty"`
	Bandwidth *Share `json:"bandwidth,omitempty"`
	// Twin is the name of the device that is the whole of a NIC that is offered in shares as
	// well; HeldWhole is true where a claim has that.
	Twin      string `json:"twin,omitempty"`
	HeldWhole bool   `json:"heldWhole,omitempty"`
	// Taint says why claims that do not tolerate it cannot have the device.
	Taint string `json:"taint,omitempty"`
	// Stranded says why a free device is of no use to an aligned claim.
	Stranded string `json:"stranded,omitempty"`
}

// Share is how much of something that is shared claims have.
type Share struct {
	Used int64 `json:"used"`
	Of   int64 `json:"of"`
}

// Part is a part of a GPU, or the GPU in another form, as for a virtual machine.
type Part struct {
	// Driver and Name are as in a ResourceSlice.
	Driver string `json:"driver"`
	Name   string `json:"name"`
	// Profile is a MIG device's, such as 1g.18gb; empty for anything else.
	Profile string `json:"profile,omitempty"`
	// VFIO: it is the whole GPU, for a virtual machine. Slices do not say which kernel
	// driver the GPU is bound to.
	VFIO      bool    `json:"vfio,omitempty"`
	MemoryMiB *uint64 `json:"memoryMiB,omitempty"`
	// Claims, SharedBy and Taint are as of a Device.
	Claims   []string `json:"claims,omitempty"`
	SharedBy int      `json:"sharedBy,omitempty"`
	Taint    string   `json:"taint,omitempty"`
}

// MemoryOnly sums up the NUMA nodes that are memory and nothing else.
type MemoryOnly struct {
	// Nodes is a list such as "2-33".
	Nodes     string  `json:"nodes"`
	Count     int     `json:"count"`
	MemoryMiB *uint64 `json:"memoryMiB,omitempty"`
}

// Claim is one ResourceClaim that holds something of the machine, or a pod that has
// something of a device plugin.
type Claim struct {
	// Key is short and used everywhere else: A, B … Z, A2.
	Key       string `json:"key"`
	Namespace string `json:"namespace"`
	// Name is the claim's, or with Resource the pod's.
	Name string   `json:"name"`
	Pods []string `json:"pods,omitempty"`
	// Resource is the extended resource by which a pod has devices of a device plugin;
	// empty of a claim.
	Resource string `json:"extendedResource,omitempty"`
	// Devices are the published names: GPUs, NICs, CPUs; of a device that no driver
	// publishes the PCI address.
	Devices []string `json:"devices"`
}

// DeviceID names a published device of the machine.
type DeviceID struct{ Driver, Name string }

// Holder is a claim that holds a device.
type Holder struct {
	Namespace, Claim string
	Pods             []string
	// CPUCount is how many CPUs of a CPU device are held; CPUs are which, empty
	// when that is unknown.
	CPUCount int
	CPUs     cpuset.CPUSet
}

// PluginDevice is a PCI function that a device plugin offers, as often as it does.
type PluginDevice struct {
	PCI model.PCIAddress
	// Resource is the extended resource.
	Resource string
	// Namespace and Pod are empty where no pod has it.
	Namespace, Pod string
}

// Published is what a ResourceSlice says of a device that is no hardware.
type Published struct {
	// Shared is true where several claims can hold the device at once, UsedUp where they
	// have all of it among them.
	Shared, UsedUp bool
	// UsedSlots and UsedBandwidth are what claims have of a NIC that is shared.
	UsedSlots, UsedBandwidth int64
	// Taint says why claims that do not tolerate it cannot have the device.
	Taint string
}

// Options are what Build needs beside the machine.
type Options struct {
	// Name overrides the machine's.
	Name string
	// Source says where the facts come from, in words.
	Source string
	// CPUCounts are how many CPUs NUMA nodes have, by node ID, where the
	// machine does not list them.
	CPUCounts map[int]int
	// CPUGroups are the published devices of CPUs; nil stands for one a NUMA
	// node.
	CPUGroups []slicecodec.CPUGroup
	// Reserved are CPUs of the machine that no claim can have.
	Reserved cpuset.CPUSet
	// Holders may be empty. A device can have many. HoldersKnown says that these
	// are all there are.
	Holders      map[DeviceID][]Holder
	HoldersKnown bool
	// Plugins are what device plugins offer of the machine's functions.
	Plugins []PluginDevice
	// Parts are devices that are parts of GPUs.
	Parts map[DeviceID]slicecodec.Part
	// Published is what slices say of devices beside the machine.
	Published map[DeviceID]Published
	// Products name PCI functions by address where the machine does not.
	Products map[string]string
	// Notes are put before those that Build makes.
	Notes []string
}

// eachNode visits the NUMA nodes in order, then the group for none.
func (t *Topology) eachNode(visit func(*Node)) {
	for i := range t.Sockets {
		for j := range t.Sockets[i].Nodes {
			visit(&t.Sockets[i].Nodes[j])
		}
	}
	if t.Unplaced != nil {
		visit(t.Unplaced)
	}
}

// eachDevice visits the devices of a node in the order they are drawn.
func (n *Node) eachDevice(visit func(*Device)) {
	for i := range n.Roots {
		n.Roots[i].eachDevice(visit)
	}
	for i := range n.Devices {
		visit(&n.Devices[i])
	}
}

// eachDevice visits the devices of a branch, those of bridges last.
func (br *Branch) eachDevice(visit func(*Device)) {
	for i := range br.Devices {
		visit(&br.Devices[i])
	}
	for i := range br.Bridges {
		br.Bridges[i].eachDevice(visit)
	}
}

func (br *Branch) empty() bool { return len(br.Devices)+len(br.Bridges) == 0 }

// simulated lists what stands in for what, each once, in order.
func simulated(t *Topology) []string {
	var list []string
	for _, d := range t.AllDevices() {
		text := d.Simulated
		if text != "" && d.Model != "" && !strings.Contains(text, d.Model) {
			text += " for " + d.Model
		}
		if text != "" && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// AllDevices lists every device of the picture, in the order they are drawn.
func (t *Topology) AllDevices() []Device {
	var list []Device
	t.eachNode(func(n *Node) {
		n.eachDevice(func(d *Device) { list = append(list, *d) })
	})
	return list
}
