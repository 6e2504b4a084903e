// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Target is a pod to observe.
type Target struct {
	UID        string
	Containers []TargetContainer
	// RDMA are the PCI functions of whose RDMA devices is to be read what the pod has;
	// VirtualFunctions those of which their physical functions are to be asked.
	RDMA, VirtualFunctions []model.PCIAddress
	// Addresses asks for those of the pod's interfaces.
	Addresses bool
}

// TargetContainer is a running container of it.
type TargetContainer struct {
	Name string
	// ID is the runtime's, 64 hexadecimal digits, without the scheme.
	ID string
}

// Pod is what the kernel says of a pod.
type Pod struct {
	UID        string
	Containers []Container
	Network    Network
	// RDMA is nil where the Target names none.
	RDMA *RDMA
	// VirtualFunctions are those that the Target names.
	VirtualFunctions map[model.PCIAddress]VirtualFunction
}

// Network is the pod's network namespace.
type Network struct {
	// Err says why Interfaces are not known.
	Err        error
	Interfaces []Interface
	// Addresses are those of all interfaces, and AddressesErr says why they are not known.
	// They are read where the Target asks for them.
	Addresses    map[netip.Addr]bool
	AddressesErr error
}

// Interface is a network interface that the pod's processes see.
type Interface struct {
	Name string
	// PCI is the function it belongs to; nil for a virtual one.
	PCI *model.PCIAddress
	// MAC is a virtual interface's address, which alone distinguishes it from
	// another one of its name; empty where the kernel gives none.
	MAC string
	// Above is true for a virtual interface on top of the host's interface of
	// that PCI function, as a macvlan is.
	Above bool
	// Link is what the kernel tells of a virtual interface that has an alias and stands on
	// one of another network namespace; nil for others.
	Link *Link
	// Default is true where the pod's default route leads through it; read of
	// PCI functions alone.
	Default bool
}

// Link is a virtual interface that stands on one of another network namespace, as a macvlan
// does that was made there.
type Link struct {
	// Alias is what somebody has called it (ifalias).
	Alias string
	// Kind is the device's type, such as macvlan; empty where the kernel tells none.
	Kind string
	// Parent is the name of the host's interface that it stands on; empty where that is
	// none of the host's.
	Parent string
	// VLANID is a vlan's tag; 0 where that is not told.
	VLANID int
	// Up is the administrator's, not the carrier.
	Up bool
}

// Container is what the kernel says of one container.
type Container struct {
	Name, ID string
	// Err says why nothing is known of the container: it has no process, or
	// ended while it was read.
	Err error
	// Granted is what its control group grants; GrantedErr says why that is not
	// known.
	Granted    Sets
	GrantedErr error
	// EnvCPUs are the CPUs in its environment (DRA_CPUSET_<claimUID>), by claim UID:
	// a driver put them there, and the container can change them. EnvErr says why
	// they are not known.
	EnvCPUs map[string]cpuset.CPUSet
	EnvErr  error
	// Processes are all in its control group.
	Processes []Process
	// Files are device files of PCI functions; FilesErr says why not known.
	Files    []File
	FilesErr error
	// Capabilities are device files that open instances of split-up GPUs (MIG);
	// CapabilitiesErr says why not known, and is nil where the files themselves are not.
	Capabilities    []Capability
	CapabilitiesErr error
	// RDMAFiles are device files of RDMA, and Memlock how many bytes of memory the
	// container's processes may lock: the most that one of them may, Unlimited for
	// any amount; MemlockErr says why that is not known. MemlockInherited is true where
	// the container has its limit from the process that made it, so that nobody set one.
	// They are read where the Target names RDMA.
	RDMAFiles        []ContainerRDMAFile
	Memlock          uint64
	MemlockInherited bool
	MemlockErr       error
	// MemoryBytes is where its own memory lies, by node; nil where not known.
	MemoryBytes map[int]uint64
}

// Sets are CPUs and memory nodes.
type Sets struct{ CPUs, Mems cpuset.CPUSet }

// Process is one process of a container.
type Process struct {
	PID int
	// Start is its start in clock ticks since boot: with PID its identity.
	Start uint64
	// Allowed is where the kernel lets it run and take memory.
	Allowed Sets
	Threads []Thread
}

// Thread is one thread of a process.
type Thread struct {
	ID int
	// CPU is where it ran last.
	CPU int
	// Ran is true when it ran since the scan before this one, for a clock tick
	// (10 ms) at least: a thread that sleeps says nothing of today.
	Ran bool
}

// FileKind is what a device file is for.
type FileKind string

// The kinds.
const (
	// FileGPU is a GPU's or other accelerator's, FileRDMA an RDMA device's,
	// FileVFIO the whole function of a PCI device (its IOMMU group).
	FileGPU  FileKind = "gpu"
	FileRDMA FileKind = "rdma"
	FileVFIO FileKind = "vfio"
)

// File is a device file in a container's /dev.
type File struct {
	// Path is the container's, such as /dev/nvidia0.
	Path string
	Kind FileKind
	// Number is the device's, such as 195:0.
	Number string
	PCI    model.PCIAddress
}

// Capability is a device file that opens a GPU instance of a GPU (MIG), or a compute
// instance in it. Who has the GPU's own file and no such one can use none of it.
type Capability struct {
	// Path is the container's, such as /dev/nvidia-caps/nvidia-cap12.
	Path string
	// Number is the device's, such as 511:12.
	Number string
	// PCI is the GPU's function.
	PCI model.PCIAddress
	// Instance is the GPU instance, Compute the compute instance in it; nil for the
	// GPU instance itself.
	Instance int
	Compute  *int
}
