// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"strings"

	"github.com/u-root/u-root/pkg/pci"
)

// pciNames is the pci.ids database, in the format in which distributions ship it,
// without subsystems and classes, which plumbline does not look up. Its source is a
// Go module, since what is pinned by go.sum is the same for whoever builds.
func pciNames() string {
	var out strings.Builder
	for _, vendor := range pci.IDs {
		fmt.Fprintf(&out, "%04x  %s\n", vendor.ID, vendor.Name)
		for _, device := range vendor.Devices {
			fmt.Fprintf(&out, "\t%04x  %s\n", device.ID, device.Name)
		}
	}
	return out.String()
}
