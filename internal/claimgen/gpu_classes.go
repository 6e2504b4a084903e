// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// gpuClass is what is known of the GPUs of a device class.
type gpuClass struct {
	// product is the attribute that holds the product's name; empty where it is not
	// known.
	product string
	// lacks are attributes that these GPUs do not have, or are not known to have
	// beside the standard ones: no constraint can hold the GPUs by them.
	lacks []resourceapi.FullyQualifiedName
}

var (
	nvidia     = gpuClass{product: slicecodec.ProductAttribute(slicecodec.DriverGPU)}
	noLocality = []resourceapi.FullyQualifiedName{slicecodec.AttrNUMANode, slicecodec.AttrSocket}
)

// gpuClasses are those of the vendors' drivers. NVIDIA's own driver has the
// standard NUMA node since v0.5.0, and the GPUs that plumbline serves have the
// socket too. AMD's driver publishes the NUMA node as gpu.amd.com/numaNode, which no
// NIC and no CPU has, and Intel's publishes none.
var gpuClasses = map[string]gpuClass{
	slicecodec.DriverGPU:  nvidia,
	"mig.nvidia.com":      nvidia,
	"vfio.gpu.nvidia.com": nvidia,
	"gpu.amd.com":         {product: slicecodec.ProductAttribute("gpu.amd.com"), lacks: noLocality},
	"gpu.intel.com":       {product: slicecodec.ProductAttribute("gpu.intel.com"), lacks: noLocality},
}

// Class is the device class of the GPUs.
func (o *Options) Class() string {
	if o.GPUClass == "" {
		return slicecodec.DriverGPU
	}
	return o.GPUClass
}

// gpus is what is known of the class. The driver of an unknown class may publish the
// standard attributes, and none of plumbline's.
func (o *Options) gpus() gpuClass {
	if known, ok := gpuClasses[o.Class()]; ok {
		return known
	}
	return gpuClass{lacks: []resourceapi.FullyQualifiedName{slicecodec.AttrSocket}}
}

// lacking says whether GPUs are requested whose driver does not publish the attribute
// that says which devices share a level.
func (o *Options) lacking(level string) bool {
	return o.GPUs > 0 && slices.Contains(o.gpus().lacks, attributes[level])
}

// shared are the levels that the GPUs can share with others.
func (o *Options) shared(of ...string) []string {
	return slices.DeleteFunc(of, o.lacking)
}
