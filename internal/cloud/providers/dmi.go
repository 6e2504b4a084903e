// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"io/fs"
	"slices"
	"strings"
)

// dmi is where the kernel shows what the firmware says of the machine
// (drivers/firmware/dmi-id.c).
const dmi = "class/dmi/id/"

// marks are how clouds sign the firmware of their machines, by file of dmi; a
// cloud is recognised by any line that names it. cloud-init's ds-identify knows
// them by the same.
var marks = []struct {
	cloud, file string
	is          func(text string) bool
}{
	{GCE, "product_name", oneOf("Google Compute Engine", "Google")},
	{AWS, "sys_vendor", oneOf("Amazon EC2")},
	{AWS, "bios_vendor", oneOf("Amazon EC2")},
	// Machines of the Xen hypervisor, such as 4.11.amazon.
	{AWS, "bios_version", func(text string) bool { return strings.HasSuffix(text, ".amazon") }},
	// Other machines of Microsoft's hypervisor have another tag.
	{Azure, "chassis_asset_tag", oneOf("7783-7084-3265-9085-8269-3286-77")},
	{OKE, "chassis_asset_tag", oneOf("OracleCloud.com")},
	{Alibaba, "product_name", oneOf("Alibaba Cloud ECS")},
	{Alibaba, "sys_vendor", oneOf("Alibaba Cloud")},
}

func oneOf(texts ...string) func(string) bool {
	return func(text string) bool { return slices.Contains(texts, text) }
}

// recognised is the cloud that the firmware names, and signed, "" for another
// machine: nobody sends a request to find that out. Only GCE is asked on suspicion,
// where the firmware says nothing at all or somebody says where a metadata server
// is.
func (o Options) recognised() (name string, signed bool) {
	silent := true
	for _, m := range marks {
		text := o.firmware(m.file)
		if m.is(text) {
			return m.cloud, true
		}
		silent = silent && text == ""
	}
	if silent || o.MetadataEndpoint != "" {
		return GCE, false
	}
	return "", false
}

// firmware is the text of a file of dmi, "" without one.
func (o Options) firmware(file string) string {
	if o.Sys == nil {
		return ""
	}
	text, err := fs.ReadFile(o.Sys, dmi+file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
