// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"plumbline.dev/plumbline/internal/machine/facts"
	"plumbline.dev/plumbline/internal/model"
)

const bridgeClass = 0x060400

// Bridges that the facts do not describe get the ids of common parts: a Broadcom
// switch, and the root port of a recent server CPU.
var (
	switchID    = facts.PCIID{Vendor: 0x1000, Device: 0xc030}
	rootPortIDs = map[string]facts.PCIID{"x86_64": {Vendor: 0x8086, Device: 0x352a}, "aarch64": {Vendor: 0x10de, Device: 0x22b2}}
)

// drivers are by vendor and base class of the function.
var drivers = map[[2]uint16]string{
	{facts.VendorMellanox, model.PCIClassNetwork}:   "mlx5_core",
	{facts.VendorAmazon, model.PCIClassNetwork}:     "ena",
	{facts.VendorGoogle, model.PCIClassNetwork}:     "gve",
	{facts.VendorBroadcom, model.PCIClassNetwork}:   "bnxt_en",
	{facts.VendorVirtio, model.PCIClassNetwork}:     "virtio-pci",
	{facts.VendorNVIDIA, model.PCIClassDisplay}:     "nvidia",
	{facts.VendorAMD, model.PCIClassDisplay}:        "amdgpu",
	{facts.VendorAMD, model.PCIClassAccelerator}:    "amdgpu",
	{facts.VendorNVIDIA, model.PCIClassAccelerator}: "nvidia",
}

// driverOf is the Linux driver that binds to a function; empty when it depends
// on more than the vendor and the class.
func driverOf(id facts.PCIID, class uint32) string {
	if id.Vendor == facts.VendorAmazon && id.Device&0xfff0 == 0xefa0 {
		return driverEFA
	}
	return drivers[[2]uint16{id.Vendor, uint16(class >> 16)}]
}

// driverEFA serves RDMA alone: the interface of an EFA adapter belongs to the
// ENA function beside it.
const driverEFA = "efa"
