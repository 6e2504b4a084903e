// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"

	"plumbline.dev/plumbline/internal/model"
)

const vendorNVIDIA = 0x10de // include/linux/pci_ids.h

// RefuseRealHardware is an error where the machine has NVIDIA GPUs of its own:
// a pod must never get a stand-in beside the real thing.
func RefuseRealHardware(m *model.Machine) error {
	for _, f := range m.Functions {
		display := f.ClassByte() == model.PCIClassDisplay || f.ClassByte() == model.PCIClassAccelerator
		if f.Vendor == vendorNVIDIA && display {
			return fmt.Errorf("simulate GPUs: this host has NVIDIA hardware at %s: want --gpu-mode=external and the vendor's driver", f.Address)
		}
	}
	return nil
}
