// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Drivers lists the drivers in the order they are described everywhere.
func Drivers() []string { return []string{DriverNet, DriverCPU, DriverGPU} }

// Encode lists the devices of one driver, in the machine's order. reserved are
// CPUs that no claim may have.
func Encode(m *model.Machine, driver string, reserved cpuset.CPUSet) []resourceapi.Device {
	switch driver {
	case DriverNet:
		return encodeNICs(m)
	case DriverCPU:
		return encodeCPUs(m, reserved)
	case DriverGPU:
		return encodeGPUs(m)
	}
	return nil
}

// MaxDevices is the most devices a slice holds: the API's limit once any device
// of it carries a taint, kept from the start so that a taint never forces a
// new split.
const MaxDevices = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures

// Split cuts a driver's devices into slices. No devices make one empty slice,
// which says "this driver is here and has nothing".
func Split(devices []resourceapi.Device) [][]resourceapi.Device {
	if len(devices) == 0 {
		return [][]resourceapi.Device{nil}
	}
	return slices.Collect(slices.Chunk(devices, MaxDevices))
}
