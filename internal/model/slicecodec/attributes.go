// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"maps"
	"slices"
)

// DRA driver names.
const (
	DriverNet = "dra.net"
	DriverCPU = "dra.cpu"
	DriverGPU = "gpu.nvidia.com"
)

// Standard attributes, KEP-4381 and KEP-6072. The test compares them with the
// constants of k8s.io/dynamic-resource-allocation/deviceattribute.
const (
	AttrPCIeRoot = "resource.kubernetes.io/pcieRoot"
	AttrPCIBusID = "resource.kubernetes.io/pciBusID"
	AttrNUMANode = "resource.kubernetes.io/numaNode"
)

// NUMANodeOfGPUsSince is the first release of NVIDIA's DRA driver that publishes
// AttrNUMANode; it leaves it out where the kernel names no NUMA node. The releases before
// publish AttrPCIBusID and AttrPCIeRoot.
const NUMANodeOfGPUsSince = "v0.5.0"

// Attributes shared by our drivers. AttrLegacyNUMANode is the name that pairs
// a NIC with CPUs in manifests written before the standard one existed.
const (
	AttrLegacyNUMANode = "dra.net/numaNode"
	// AttrSocket is dra-driver-cpu's name. NICs and GPUs have it too, so that a
	// matchAttribute constraint can align them with CPUs of either driver.
	AttrSocket    = "dra.cpu/socketID"
	AttrSimulated = "plumbline.dev/simulated"
	AttrRDMA      = "dra.net/rdma"
	// AttrRDMADevice is the RDMA device's name in /sys/class/infiniband.
	AttrRDMADevice = "dra.net/rdmaDevice"
	// AttrRDMALinkLayer is that of the RDMA device's first port. DRANET has no such one.
	AttrRDMALinkLayer = "dra.net/rdmaLinkLayer"
)

// Attributes of NICs.
const (
	attrIfName        = "dra.net/ifName"
	attrMAC           = "dra.net/mac"
	attrMTU           = "dra.net/mtu"
	attrEncapsulation = "dra.net/encapsulation"
	attrAlias         = "dra.net/alias"
	attrState         = "dra.net/state"
	attrType          = "dra.net/type"
	attrIPv4          = "dra.net/ipv4"
	attrIPv6          = "dra.net/ipv6"
	attrSRIOV         = "dra.net/sriov"
	attrSRIOVVFs      = "dra.net/sriovVfs"
	// AttrIsVF is true of virtual functions, and of nothing else.
	AttrIsVF   = "dra.net/isSriovVf"
	attrPFName = "dra.net/pfName"
	// AttrPFAddress is the PCI address of a virtual function's physical one.
	AttrPFAddress = "plumbline.dev/physicalFunction"
	// attrVFID is the number of a virtual function at its physical one.
	attrVFID         = "plumbline.dev/vfID"
	attrVirtual      = "dra.net/virtual"
	attrPCIAddress   = "dra.net/pciAddress"
	attrPCIVendor    = "dra.net/pciVendor"
	attrPCIDevice    = "dra.net/pciDevice"
	attrPCISubsystem = "dra.net/pciSubsystem"
	attrLinkSpeed    = "dra.net/linkSpeed"
	attrKernelDriver = "dra.net/driver"
	// DRANET's: whether there are eBPF programs, and what tc's filters and the
	// programs of tcx are called.
	attrEBPF        = "dra.net/ebpf"
	attrTCFilters   = "dra.net/tcFilterNames"
	attrTCXPrograms = "dra.net/tcxProgramNames"
	// attrGPUDirect: whether the NIC's RDMA reaches the memory of the host's GPUs;
	// absent where nobody can tell.
	attrGPUDirect = "plumbline.dev/gpuDirect"
	// AttrPairedGPU is the address of the GPU that the NIC belongs to, as the GPU has it
	// in AttrPCIBusID; absent where the PCIe root says it, or nothing does.
	AttrPairedGPU = "plumbline.dev/gpuPCIBusID"
	// AttrShared is true of a NIC that is shared: it stays on the host, and each holder
	// gets a link of its own on it. Others do not have it.
	AttrShared = "dra.net/shared"
	// AttrShareType is the kind of that link: macvlan, ipvlan or vlan.
	AttrShareType = "plumbline.dev/shareType"
	// attrShareOptions are the mode and the flag of ipvlans, such as "l3 private", or the
	// tags of vlans, such as "100-199".
	attrShareOptions = "plumbline.dev/shareOptions"
	// AttrDataDirectRoot is the PCIe root of the function by which the NIC reaches GPUs
	// (Data Direct). AttrPCIeRoot stays that of the function which
	// AttrPCIBusID names, unless model.NIC.DataDirectAsRoot is set.
	AttrDataDirectRoot = "plumbline.dev/dataDirectRoot"
)

// Capacities of NICs that are shared.
const (
	// CapacitySlots is how many can have the NIC at once: a claim that says nothing takes
	// one.
	CapacitySlots = "dra.net/slots"
	// CapacityBandwidth is in bit/s. It is counted, and nothing enforces it: a claim that
	// says nothing takes none.
	CapacityBandwidth = "dra.net/bandwidth"
)

// Attributes and capacities of CPUs.
const (
	AttrCPUNUMANode = "dra.cpu/numaNodeID"
	AttrNumCPUs     = "dra.cpu/numCPUs"
	attrSMT         = "dra.cpu/smtEnabled"
	AttrL3          = "dra.cpu/cacheL3ID"
	AttrCPUID       = "dra.cpu/cpuID"
	attrCore        = "dra.cpu/coreID" // as the kernel numbers it: anew in every package
	attrCoreType    = "dra.cpu/coreType"
	// AttrCPUList says which CPUs the group has, as a cpulist; left out where
	// that takes more than an attribute can hold.
	AttrCPUList = "plumbline.dev/cpuList"
	// attrReserved lists the reserved CPUs of the same NUMA nodes; left out where
	// there are none.
	attrReserved = "plumbline.dev/reservedCPUs"

	// CapacityCPU is the capacity that a claim takes CPUs from.
	CapacityCPU = "dra.cpu/cpu"
	// CapacityHugepages2Mi and CapacityHugepages1Gi are those that it takes huge
	// pages beside its CPUs from, in bytes.
	CapacityHugepages2Mi = "dra.cpu/hugepages2Mi"
	CapacityHugepages1Gi = "dra.cpu/hugepages1Gi"
)

// Attributes that containers alone are told, in the metadata of their devices.
const (
	// AttrAllocatedCPUs is dra-driver-cpu's name for how many CPUs a claim has of a
	// device, and AttrCPUs are which, as a cpulist of any length.
	AttrAllocatedCPUs = "dra.cpu/allocatedNumCPUs"
	AttrCPUs          = "plumbline.dev/cpus"
	// AttrGID is the RoCE v2 GID of a NIC's address in the pod, and AttrGIDIndex its
	// index in the table of the port.
	AttrGID      = "plumbline.dev/gid"
	AttrGIDIndex = "plumbline.dev/gidIndex"
)

// Attributes and the capacity of GPUs. NVIDIA's names carry no domain of their
// own; the driver's name is their domain.
const (
	attrGPUType       = "type"
	attrUUID          = "uuid"
	attrProductName   = "productName"
	attrBrand         = "brand"
	attrArchitecture  = "architecture"
	attrComputeCap    = "cudaComputeCapability"
	attrDriverVersion = "driverVersion"
	attrCUDAVersion   = "cudaDriverVersion"
	capacityMemory    = "memory"

	// typeGPU is attrGPUType of a whole GPU.
	typeGPU = "gpu"
	// typeMIG is attrGPUType of a part of one of NVIDIA's (MIG).
	typeMIG = "mig"
	// typeVFIO is attrGPUType of a GPU for a virtual machine, and capacityAddressable its
	// memory as NVIDIA's driver says it.
	typeVFIO            = "vfio"
	capacityAddressable = "addressableMemory"
	attrMIGProfile      = "profile"
	attrParentUUID      = "parentUUID"
)

// dropOrder is what a device loses first when it has more attributes and capacities
// than the API allows: descriptions before identities. After these it loses the cloud's
// other attributes, from the last name to the first.
var dropOrder = []string{
	attrAlias, attrTCFilters, attrTCXPrograms, attrEncapsulation, "gce.dra.net/ipAliases", attrIPv6, attrPCISubsystem, "gce.dra.net/host", attrIPv4,
	attrState, attrMAC, attrPCIDevice, attrPCIVendor,
}

// ownAttributes are the NIC attributes that only this driver sets.
var ownAttributes = map[string]bool{
	AttrPCIeRoot: true, AttrPCIBusID: true, AttrNUMANode: true,
	AttrLegacyNUMANode: true, AttrSocket: true, AttrSimulated: true, AttrRDMA: true,
	attrIfName: true, attrMAC: true, attrMTU: true, attrEncapsulation: true, attrAlias: true, attrState: true,
	attrType: true, attrIPv4: true, attrIPv6: true, attrSRIOV: true, attrSRIOVVFs: true, AttrIsVF: true,
	attrPFName: true, AttrPFAddress: true, attrVFID: true, attrVirtual: true, attrPCIAddress: true, attrPCIVendor: true,
	attrPCIDevice: true, attrPCISubsystem: true, AttrRDMADevice: true, AttrRDMALinkLayer: true,
	attrLinkSpeed: true, attrKernelDriver: true, attrEBPF: true, attrTCFilters: true, attrTCXPrograms: true,
	attrGPUDirect: true, AttrPairedGPU: true, AttrDataDirectRoot: true,
	AttrShared: true, AttrShareType: true, attrShareOptions: true,
}

// AttributeNames lists, sorted and with their domains, the attributes that plumbline's
// drivers publish; a cloud adds others to NICs.
func AttributeNames() []string {
	var all []string
	for _, driver := range Drivers() {
		all = append(all, AttributesOf(driver)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// AttributesOf are those that one of plumbline's drivers publishes, sorted and with
// their domains.
func AttributesOf(driver string) []string {
	var names []string
	switch driver {
	case DriverNet:
		names = slices.Collect(maps.Keys(ownAttributes))
	case DriverCPU:
		names = []string{
			AttrNUMANode, AttrLegacyNUMANode, AttrSocket, AttrPCIeRoot,
			AttrCPUNUMANode, AttrNumCPUs, attrSMT, AttrL3, AttrCPUID, attrCore, attrCoreType, AttrCPUList, attrReserved,
		}
	case DriverGPU:
		names = []string{AttrPCIeRoot, AttrPCIBusID, AttrNUMANode, AttrLegacyNUMANode, AttrSocket, AttrSimulated}
		for _, bare := range []string{
			attrGPUType, attrUUID, attrProductName, attrBrand, attrArchitecture, attrComputeCap, attrDriverVersion, attrCUDAVersion,
		} {
			names = append(names, DriverGPU+"/"+bare)
		}
	}
	slices.Sort(names)
	return names
}

// AlwaysPublished lists the attributes that no device of a driver lacks, NVIDIA's own
// driver among them in every kind that it publishes (a GPU, a MIG device, one for
// vfio-pci).
func AlwaysPublished(driver string) []string {
	switch driver {
	case DriverNet:
		return []string{AttrRDMA}
	case DriverGPU:
		return []string{AttrPCIBusID, DriverGPU + "/" + attrGPUType, DriverGPU + "/" + attrProductName}
	}
	return nil
}

// ClassShared is the device class of NICs that are shared.
const ClassShared = "shared.dra.net"

// ClassMIG is the device class of NVIDIA's driver for parts of GPUs.
const ClassMIG = "mig.nvidia.com"

// AlwaysOfClass lists the attributes that every device of a vendor's device class has
// beside those that every one of its driver has: a class may choose devices of one type.
func AlwaysOfClass(class string) []string {
	if class == ClassMIG {
		return []string{DriverGPU + "/parentUUID", DriverGPU + "/profile"}
	}
	return nil
}

// IndividualCPUAttributes are those that devices of dra.cpu have in individual mode only.
func IndividualCPUAttributes() []string { return []string{AttrCPUID, attrCore, attrCoreType} }

// ProductAttribute is the attribute with the product's name of a driver's GPUs, in the
// driver's domain; "" where it is not known.
func ProductAttribute(driver string) string {
	switch driver {
	case DriverGPU, "gpu.amd.com":
		return driver + "/" + attrProductName
	case "gpu.intel.com":
		return driver + "/model"
	}
	return ""
}
