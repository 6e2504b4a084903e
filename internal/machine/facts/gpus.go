// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// product is what follows from a product's name, as NVML spells it; compute is the
// compute capability as a version of the API, which has three parts.
type product struct{ architecture, compute, brand string }

// products are by name. A brand is missing where it depends on the driver's version.
var products = map[string]product{
	"Tesla T4":              {"Turing", "7.5.0", ""},
	"NVIDIA A100-SXM4-40GB": {"Ampere", "8.0.0", "Nvidia"},
	"NVIDIA A100-SXM4-80GB": {"Ampere", "8.0.0", "Nvidia"},
	"NVIDIA H100 80GB HBM3": {"Hopper", "9.0.0", "Nvidia"},
	"NVIDIA H200":           {"Hopper", "9.0.0", "Nvidia"},
	"NVIDIA B200":           {"Blackwell", "10.0.0", "Nvidia"},
	"NVIDIA GB200":          {"Blackwell", "10.0.0", "Nvidia"},
}

// ModelGPUs are the GPUs that the driver gpu.nvidia.com serves, so NVIDIA's alone,
// numbered in PCI order.
func (f *Facts) ModelGPUs() []model.GPU {
	devices := slices.SortedFunc(slices.Values(f.GPUs), func(a, b Device) int { return a.Address.Compare(b.Address) })
	var gpus []model.GPU
	for i := range devices {
		d := &devices[i]
		if d.Identity().Vendor != VendorNVIDIA {
			continue
		}
		g := model.GPU{Index: len(gpus), PCI: d.Address, ProductName: d.Model, NUMANode: d.NUMA}
		if d.MemoryMiB != nil {
			bytes := *d.MemoryMiB << 20
			g.MemoryBytes = &bytes
		}
		if known, ok := products[d.Model]; ok {
			g.Architecture, g.ComputeCapability = &known.architecture, &known.compute
			if known.brand != "" {
				g.Brand = &known.brand
			}
		}
		gpus = append(gpus, g)
	}
	return gpus
}

// Vendors as PCI-SIG numbers them.
const (
	VendorAMD      = 0x1002
	VendorNVIDIA   = 0x10de
	VendorBroadcom = 0x14e4
	VendorMellanox = 0x15b3
	VendorGoogle   = 0x1ae0
	VendorVirtio   = 0x1af4
	VendorAmazon   = 0x1d0f
	VendorIntel    = 0x8086
)

// Identity is the device's id. Where the facts have none, the maker follows
// from the model's or the RDMA device's name and the device is 0.
func (d *Device) Identity() PCIID {
	if d.ID != nil {
		return *d.ID
	}
	for _, maker := range []struct {
		word   string
		vendor uint16
	}{
		{"NVIDIA", VendorNVIDIA}, {"Tesla", VendorNVIDIA}, {"AMD", VendorAMD}, {"ConnectX", VendorMellanox},
		{"BlueField", VendorMellanox}, {"mlx", VendorMellanox}, {"EFA", VendorAmazon}, {"ENA", VendorAmazon},
		{"gVNIC", VendorGoogle}, {"TPU", VendorGoogle}, {"Broadcom", VendorBroadcom}, {"bnxt", VendorBroadcom},
		{"Intel", VendorIntel},
	} {
		if strings.Contains(d.Model+" "+d.RDMA, maker.word) {
			return PCIID{Vendor: maker.vendor}
		}
	}
	return PCIID{}
}
