// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

func encodeGPU(m *model.Machine, g model.GPU) *builder {
	b := newBuilder(GPUName(g))
	b.place(m, g.NUMANode)
	b.text(attrGPUType, ptr.To(typeGPU))
	b.text(attrUUID, g.UUID)
	if g.ProductName != "" {
		b.text(attrProductName, &g.ProductName)
	}
	b.text(attrBrand, g.Brand)
	b.text(attrArchitecture, g.Architecture)
	b.version(attrComputeCap, g.ComputeCapability)
	b.version(attrDriverVersion, g.DriverVersion)
	b.version(attrCUDAVersion, g.CUDAVersion)
	b.standardPCI(m, g.PCI)
	if g.Simulated != nil {
		b.flag(AttrSimulated, true)
	}
	if g.MemoryBytes != nil {
		b.device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			capacityMemory: {Value: *resource.NewQuantity(int64(*g.MemoryBytes), resource.BinarySI)},
		}
	}
	return b
}
