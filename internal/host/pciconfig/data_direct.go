// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciconfig

import "plumbline.dev/plumbline/internal/model"

// DataDirectKeyword is the keyword of vital product data of which a Data Direct function
// and its NIC have the same value.
const DataDirectKeyword = "V3"

const (
	vendorMellanox   = 0x15b3
	deviceDataDirect = 0x2100
)

// IsDataDirect says whether a function is the one by which a NIC of NVIDIA reaches the
// memory of a GPU below another root than its own: ConnectX-8 Data Direct.
func IsDataDirect(f *model.PCIFunction) bool {
	return f.Vendor == vendorMellanox && f.Device == deviceDataDirect
}

// MayHaveDataDirect says whether a function is a NIC of NVIDIA that has vital product
// data: a physical function.
func MayHaveDataDirect(f *model.PCIFunction) bool {
	return f.Vendor == vendorMellanox && f.ClassByte() == model.PCIClassNetwork && f.Device != deviceDataDirect && f.PhysicalFunction == nil
}
