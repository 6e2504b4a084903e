// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import "strings"

// gpuVendors are the PCI vendors of extended resources of whole GPUs and other
// accelerators, as their device plugins call them.
var gpuVendors = map[string]uint16{
	nvidiaGPU:            0x10de,
	"amd.com/gpu":        0x1002,
	"gpu.intel.com/i915": 0x8086,
	"gpu.intel.com/xe":   0x8086,
	"habana.ai/gaudi":    0x1da3,
	"google.com/tpu":     0x1ae0,
}

const (
	nvidiaGPU = "nvidia.com/gpu"
	// nvidiaMIG is how NVIDIA's device plugin calls parts of GPUs, such as
	// nvidia.com/mig-1g.18gb; the files are those of the GPU and of the part.
	nvidiaMIG = "nvidia.com/mig-"
)

// GPUVendor is the PCI vendor of an extended resource's GPUs, or of the GPUs that it is
// parts of; false for a resource that is not known to be of GPUs.
func GPUVendor(resource string) (uint16, bool) {
	// A node's GPUs that are shared may have a name of their own.
	resource = strings.TrimSuffix(resource, ".shared")
	if strings.HasPrefix(resource, nvidiaMIG) {
		resource = nvidiaGPU
	}
	vendor, known := gpuVendors[resource]
	return vendor, known
}

// WithoutReplica takes from a device ID what NVIDIA's device plugin appends where it
// offers one GPU several times: "GPU-…::3" (internal/rm/devices.go, AnnotatedID).
func WithoutReplica(id string) string {
	id, _, _ = strings.Cut(id, "::")
	return id
}
