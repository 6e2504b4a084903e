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
	names := slices.Collect(maps.Keys(ownAttributes))
	names = append(names, attrCPUNUMANode, attrNumCPUs, attrSMT, attrL3, attrCPU, attrCore, attrCoreType, attrCPUList, attrReserved)
	for _, bare := range []string{
		attrGPUType, attrUUID, attrProductName, attrBrand, attrArchitecture, attrComputeCap, attrDriverVersion, attrCUDAVersion,
	} {
		names = append(names, DriverGPU+"/"+bare)
	}
	slices.Sort(names)
	return names
}
