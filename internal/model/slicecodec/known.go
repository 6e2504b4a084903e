// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"maps"
	"slices"
)

// AttributeNames lists, sorted and with their domains, the attributes that our
// drivers publish by themselves; a cloud adds others to NICs.
func AttributeNames() []string {
	var all []string
	for _, driver := range Drivers() {
		all = append(all, AttributesOf(driver)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// AttributesOf are those that one driver publishes by itself, sorted and with
// their domains.
func AttributesOf(driver string) []string {
	var names []string
	switch driver {
	case DriverNet:
		names = slices.Collect(maps.Keys(ownAttributes))
	case DriverCPU:
		names = []string{
			AttrNUMANode, AttrLegacyNUMANode, AttrSocket, AttrPCIeRoot,
			attrCPUNUMANode, attrNumCPUs, attrSMT, attrL3, attrCPU, attrCore, attrCoreType, attrCPUList, attrReserved,
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

// IndividualCPUAttributes are those that devices of dra.cpu have in individual mode only.
func IndividualCPUAttributes() []string { return []string{attrCPU, attrCore, attrCoreType} }

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
