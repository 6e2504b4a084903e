// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mfu

import (
	"fmt"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// BF16 is the precision of which peaks are known here.
const BF16 = "bf16"

// bf16Dense has dense bf16 peaks in TFLOP/s, without the factor of two that vendors add for
// sparse matrices, by the name of the product that torch.cuda.get_device_name gives.
// Figures of A100, H100 SXM, H200, B200 and GB200 are those of the published benchmark; the others
// are as their vendors' sheets are quoted, and were not read there.
var bf16Dense = map[string]float64{
	// NVIDIA A100 Tensor Core GPU datasheet: BF16 312 (624 sparse), the same for all forms.
	"NVIDIA A100-SXM4-40GB": 312,
	"NVIDIA A100-SXM4-80GB": 312,
	"NVIDIA A100-PCIE-40GB": 312,
	"NVIDIA A100 80GB PCIe": 312,
	// NVIDIA H100 Tensor Core GPU datasheet: SXM 1,979 sparse, PCIe 1,513, NVL 1,671.
	"NVIDIA H100 80GB HBM3": 989,
	"NVIDIA H100 PCIe":      756,
	"NVIDIA H100 NVL":       835,
	// NVIDIA H200 Tensor Core GPU datasheet: SXM 1,979 sparse.
	"NVIDIA H200": 989,
	// NVIDIA Blackwell datasheet, HGX B200: 36 PFLOPS of eight GPUs, sparse.
	"NVIDIA B200": 2250,
	// NVIDIA GB200 NVL72, specifications: 360 PFLOPS of 72 GPUs, sparse.
	"NVIDIA GB200": 2500,
	// NVIDIA GB300 NVL72, specifications: 360 PFLOPS of 72 GPUs, sparse.
	"NVIDIA GB300": 2500,
	// AMD Instinct MI300X accelerator data sheet: BF16 1,307.4 (2,614.9 sparse). Clouds
	// hand it out as a virtual function, whole.
	"AMD Instinct MI300X":    1307.4,
	"AMD Instinct MI300X VF": 1307.4,
}

// Peak is what one GPU of this product can do, in TFLOP/s.
func Peak(device, precision string) (float64, error) {
	if precision != BF16 {
		return 0, fmt.Errorf("precision %s: %w: peaks are known for %s alone, want --peak-tflops", tools.Quote(precision), tools.ErrMissing, BF16)
	}
	peak, known := bf16Dense[device]
	if !known {
		return 0, fmt.Errorf("device %s: %w: its peak is not known, want --peak-tflops with its dense %s TFLOP/s", tools.Quote(device), tools.ErrMissing, precision)
	}
	return peak, nil
}
