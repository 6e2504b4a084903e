// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugins

import (
	"io/fs"
	"path"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/deviceplugin"
	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/model"
)

// locator finds the PCI function of a device ID.
type locator struct {
	m     *model.Machine
	uuids map[string]model.PCIAddress
}

// function is where an ID leads: NVIDIA's are UUIDs of GPUs; AMD's, and those of the
// device plugin of virtual functions (SR-IOV), are PCI addresses. The UUID of a MIG device
// stands nowhere in /proc: it leads nowhere.
func (l locator) function(id string) *deviceplugin.Function {
	id = deviceplugin.WithoutReplica(id)
	address, known := l.uuids[id]
	if !known {
		var err error
		if address, err = model.ParsePCIAddress(id); err != nil {
			return nil
		}
	}
	f := l.m.Function(address)
	if f == nil {
		return nil
	}
	out := &deviceplugin.Function{
		Address: address.String(), Root: f.Root, NUMANode: f.NUMANode, Class: f.Class, Vendor: f.Vendor, Device: f.Device,
		Product: ptr.Deref(f.DeviceName, ""), Driver: ptr.Deref(f.Driver, ""),
	}
	if root := l.m.Root(f.Root); root != nil {
		out.RootPublished = root.Published
		if out.NUMANode == nil {
			out.NUMANode = root.NUMANode
		}
	}
	return out
}

// gpusByUUID asks NVIDIA's driver; nil where it is not, and without those GPUs whose UUID
// it does not say.
func gpusByUUID(proc fs.FS) map[string]model.PCIAddress {
	const dir = "driver/nvidia/gpus"
	entries, err := fs.ReadDir(proc, dir)
	if err != nil {
		return nil
	}
	uuids := map[string]model.PCIAddress{}
	for _, e := range entries {
		address, err := model.ParsePCIAddress(e.Name())
		if err != nil {
			continue
		}
		text, err := fs.ReadFile(proc, path.Join(dir, e.Name(), "information"))
		if err != nil {
			continue
		}
		if uuid, err := procfs.ParseGPUUUID(text); err == nil {
			uuids[uuid] = address
		}
	}
	return uuids
}
