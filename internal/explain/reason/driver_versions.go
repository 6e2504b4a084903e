// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"fmt"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// versionHint says which release of NVIDIA's driver has the NUMA node that a constraint
// compares, and what can be compared with any; empty where GPUs of that driver are not
// what lacks it. A slice does not carry its driver's version: the lack of the attribute is
// all that tells, and a host whose kernel names no NUMA node looks the same.
func (a *Answer) versionHint(t *conflictConstraint) string {
	if t.attribute != slicecodec.AttrNUMANode && t.attribute != slicecodec.AttrLegacyNUMANode {
		return ""
	}
	lacking, withNode := a.gpusWithout(t)
	switch {
	case !lacking:
		return ""
	case withNode:
		return fmt.Sprintf("NVIDIA's driver publishes %s instead", slicecodec.AttrNUMANode)
	}
	it := "it"
	if t.attribute != slicecodec.AttrNUMANode {
		it = slicecodec.AttrNUMANode + " instead,"
	}
	return fmt.Sprintf("NVIDIA's driver publishes %s from %s on, and only where the kernel names a NUMA node; "+
		"every release can compare %s with a NIC's", it, slicecodec.NUMANodeOfGPUsSince, slicecodec.AttrPCIeRoot)
}

// gpusWithout says whether a constraint is about free GPUs of NVIDIA's driver without its
// attribute, and whether these have the standard NUMA node.
func (a *Answer) gpusWithout(t *conflictConstraint) (lacking, withNode bool) {
	for _, r := range t.requests {
		for i := range r.Alternatives {
			if !compile.Applies(t.constraint, r.Name, &r.Alternatives[i].Subrequest) {
				continue
			}
			for d, why := range r.Alternatives[i].Why {
				device := &a.Devices[d]
				if why.Obstacle != compile.None || device.ID.Driver != slicecodec.DriverGPU || a.has(&r.Alternatives[i], d, t.attribute) {
					continue
				}
				lacking = true
				withNode = withNode || compile.Lookup(device, slicecodec.AttrNUMANode) != nil
			}
		}
	}
	return lacking, withNode
}
