// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"bytes"
	"fmt"

	"plumbline.dev/plumbline/internal/machine"
)

// ProcDriver is where the root of a driver has what NVIDIA's kernel driver shows in
// /proc/driver. The library adds the instances of GPUs.
const ProcDriver = "proc/driver"

// The files of capabilities are numbered from firstCapability on: of each GPU those of all
// instances that there can be, each with its compute instances.
const (
	configCapability, monitorCapability = 1, 2
	firstCapability                     = 3
	instancesOfGPU, computesOfInstance  = 15, 8
)

// Proc are the files of /proc/driver on a node that is such a machine, by their paths in it.
// GPUs have the UUIDs of Table there.
func Proc(f *machine.Facts, node string) map[string][]byte {
	files := map[string][]byte{
		"nvidia/version":                  []byte("NVRM version: plumbline's stand-in for NVIDIA's open kernel module  " + DriverVersion + "\n"),
		"nvidia/capabilities/mig/config":  capability(configCapability),
		"nvidia/capabilities/mig/monitor": capability(monitorCapability),
		"nvidia-caps/mig-minors":          migMinors(f),
	}
	for _, gpu := range f.ModelGPUs() {
		files[fmt.Sprintf("nvidia/gpus/%s/information", gpu.PCI)] = fmt.Appendf(nil,
			"Model: \t\t stand-in for %s\nGPU UUID: \t %s\nBus Location: \t %s\nDevice Minor: \t %d\n", gpu.ProductName, gpuUUID(ownerOf(f, node), gpu.PCI), gpu.PCI, gpu.Index)
	}
	return files
}

func capability(minor int) []byte {
	return fmt.Appendf(nil, "DeviceFileMinor: %d\nDeviceFileMode: 292\nDeviceFileModify: 1\n", minor)
}

// migMinors lists which number is whose.
func migMinors(f *machine.Facts) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "config %d\nmonitor %d\n", configCapability, monitorCapability)
	for _, gpu := range f.ModelGPUs() {
		for instance := range instancesOfGPU {
			minor := firstCapability + (gpu.Index*instancesOfGPU+instance)*(computesOfInstance+1)
			fmt.Fprintf(&text, "gpu%d/gi%d/access %d\n", gpu.Index, instance, minor)
			for compute := range computesOfInstance {
				fmt.Fprintf(&text, "gpu%d/gi%d/ci%d/access %d\n", gpu.Index, instance, compute, minor+1+compute)
			}
		}
	}
	return text.Bytes()
}
