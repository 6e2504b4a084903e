// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/vendorconfig/nvidia"
)

// gpuClass is what is known of the GPUs of a device class.
type gpuClass struct {
	// product is the attribute that holds the product's name; empty where it is not
	// known.
	product string
	// deviceType is the type of NVIDIA's devices that it has; empty for other vendors'.
	deviceType string
	// lacks are attributes that these GPUs do not have, or are not known to have
	// beside the standard ones: no constraint can hold the GPUs by them.
	lacks []resourceapi.FullyQualifiedName
}

var noLocality = []resourceapi.FullyQualifiedName{slicecodec.AttrNUMANode, slicecodec.AttrSocket}

// migClass is NVIDIA's class of MIG devices.
const migClass = "mig.nvidia.com"

// ofNVIDIA is a class of NVIDIA's for devices of a type.
func ofNVIDIA(deviceType string) gpuClass {
	return gpuClass{product: slicecodec.ProductAttribute(slicecodec.DriverGPU), deviceType: deviceType}
}

// gpuClasses are those of the vendors' drivers. NVIDIA's own driver has the
// standard NUMA node since v0.5.0, and the GPUs that plumbline serves have the
// socket too. AMD's driver publishes the NUMA node as gpu.amd.com/numaNode, which no
// NIC and no CPU has, and Intel's publishes none.
var gpuClasses = map[string]gpuClass{
	slicecodec.DriverGPU:  ofNVIDIA(nvidia.TypeGPU),
	migClass:              ofNVIDIA(nvidia.TypeMIG),
	"vfio.gpu.nvidia.com": ofNVIDIA(nvidia.TypeVFIO),
	"gpu.amd.com":         {product: slicecodec.ProductAttribute("gpu.amd.com"), lacks: noLocality},
	"gpu.intel.com":       {product: slicecodec.ProductAttribute("gpu.intel.com"), lacks: noLocality},
}

// Class is the device class of the GPUs.
func (o *Options) Class() string {
	switch {
	case o.GPUClass != "":
		return o.GPUClass
	case o.MIGProfile != "":
		return migClass
	}
	return slicecodec.DriverGPU
}

// deviceType is the type of NVIDIA's devices that the claim is for; known is false for a
// class that may be of anybody's.
func (o *Options) deviceType() (deviceType string, known bool) {
	class, known := gpuClasses[o.Class()]
	if !known && o.MIGProfile != "" {
		return nvidia.TypeMIG, true
	}
	return class.deviceType, known
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
