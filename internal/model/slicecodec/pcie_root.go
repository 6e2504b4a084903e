// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"regexp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// pciAddressAndRoot sets pciBusID, and pcieRoot where the upstream helper would.
func (b *builder) pciAddressAndRoot(m *model.Machine, a model.PCIAddress) {
	b.text(AttrPCIBusID, ptr.To(a.String()))
	if root := m.RootOf(a); root != nil && root.Published {
		b.text(AttrPCIeRoot, &root.Name)
	}
}

// pcieRoots sets the list form of AttrPCIeRoot, up to the API's limit of values.
func (b *builder) pcieRoots(names []string) {
	if left := resourceapi.ResourceSliceMaxAttributeValuesPerDevice - len(b.device.Attributes); len(names) > left {
		b.omit("%d of %d PCIe roots: a device has room for %d values", len(names)-left, len(names), resourceapi.ResourceSliceMaxAttributeValuesPerDevice)
		names = names[:left]
	}
	if len(names) > 0 {
		b.set(AttrPCIeRoot, resourceapi.DeviceAttribute{StringValues: names})
	}
}

// rootsNear are the names of the published roots on the device's NUMA nodes.
func rootsNear(m *model.Machine, d CPUDevice) []string {
	var names []string
	for _, r := range m.Roots {
		if r.Published && r.NUMANode != nil && slices.Contains(d.Nodes, *r.NUMANode) {
			names = append(names, r.Name)
		}
	}
	return names
}

// rootName is the kernel's (drivers/pci/probe.c, pci_register_host_bridge).
var rootName = regexp.MustCompile(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)

// pcieRoot reads the root that a device of any driver names. It is nil where the value
// is empty, as dra-driver-sriov's is for an unknown root, and where an attribute other
// than the standard one has another format: Intel's was the bus alone.
func (r *reader) pcieRoot() *string {
	name, ok := r.first(rootNames)
	if !ok {
		return nil
	}
	values := r.texts(name)
	if len(values) == 0 || values[0] == "" || name != AttrPCIeRoot && !rootName.MatchString(values[0]) {
		return nil
	}
	return &values[0]
}
