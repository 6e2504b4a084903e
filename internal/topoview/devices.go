// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const vendorAMD = 0x1002

// pciDevices lists what to draw for each PCI function: the GPUs and NICs there,
// and functions of a telling class that no driver offers.
func (b *builder) pciDevices() map[model.PCIAddress][]Device {
	devices := map[model.PCIAddress][]Device{}
	for _, g := range b.m.GPUs {
		if f := b.m.Function(g.PCI); f != nil {
			devices[g.PCI] = append(devices[g.PCI], b.gpu(g))
		}
	}
	for _, n := range b.m.NICs {
		if n.PCI != nil && b.m.Function(*n.PCI) != nil {
			devices[*n.PCI] = append(devices[*n.PCI], b.nic(n))
		}
	}
	for i := range b.m.Functions {
		f := &b.m.Functions[i]
		if kind := otherKind(f); kind != "" && len(devices[f.Address]) == 0 {
			d := Device{Kind: kind, Address: f.Address.String(), Model: b.product(f), Link: link(f), NUMANode: f.NUMANode}
			if len(b.parts[f.Address]) > 0 {
				d.Kind = KindGPU
				b.addParts(&d, f.Address)
			}
			devices[f.Address] = []Device{d}
		}
	}
	for address, list := range devices {
		for i := range list {
			list[i].Passthrough = passthrough(b.m.Function(address))
			b.plugged(&list[i], address)
		}
	}
	return devices
}

// passthrough is a function's kernel driver if that is vfio-pci or one of its variants,
// such as mlx5_vfio_pci and nvgrace-gpu-vfio-pci (drivers/vfio/pci).
func passthrough(f *model.PCIFunction) string {
	if f == nil || f.Driver == nil || !strings.Contains(*f.Driver, "vfio") {
		return ""
	}
	return *f.Driver
}

// placeRootless puts GPUs and NICs that are no known PCI function below their
// NUMA node.
func (b *builder) placeRootless() {
	for _, g := range b.m.GPUs {
		if b.m.Function(g.PCI) == nil {
			p := b.place(g.NUMANode)
			p.Devices = append(p.Devices, b.gpu(g))
		}
	}
	for _, n := range b.m.NICs {
		if n.PCI == nil || b.m.Function(*n.PCI) == nil {
			p := b.place(n.NUMANode)
			p.Devices = append(p.Devices, b.nic(n))
		}
	}
}

func otherKind(f *model.PCIFunction) string {
	switch f.ClassByte() {
	case model.PCIClassDisplay:
		return KindDisplay
	case model.PCIClassAccelerator:
		return KindAccelerator
	case model.PCIClassNetwork:
		return KindNetwork
	case model.PCIClassStorage:
		return KindStorage
	}
	return ""
}

// product names a function by Options.Products, then by the pci.ids
// database, else by its numbers.
func (b *builder) product(f *model.PCIFunction) string {
	if name := b.o.Products[f.Address.String()]; name != "" {
		return name
	}
	if f.DeviceName != nil {
		return *f.DeviceName
	}
	ids := fmt.Sprintf("%04x:%04x", f.Vendor, f.Device)
	if f.VendorName != nil {
		return *f.VendorName + " " + ids
	}
	return ids
}

func (b *builder) gpu(g model.GPU) Device {
	f, id := b.m.Function(g.PCI), slicecodec.IDOfGPU(g)
	d := Device{
		Kind: KindGPU, Driver: id.Driver, Name: id.Name, Address: g.PCI.String(),
		Model: g.ProductName, MemoryMiB: mebibytes(g.MemoryBytes), Link: link(f), NUMANode: g.NUMANode,
		Simulated: ptr.Deref(g.Simulated, ""),
	}
	if f != nil && f.ClassByte() == model.PCIClassAccelerator && f.Vendor != vendorAMD {
		d.Kind = KindAccelerator
	}
	b.published(&d)
	d.SharedBy = b.claims.sharers(b.claims.of(DeviceID{d.Driver, d.Name}))
	b.addParts(&d, g.PCI)
	return d
}

func (b *builder) nic(n model.NIC) Device {
	id := slicecodec.IDOfNIC(n)
	d := Device{
		Kind: KindNIC, Driver: id.Driver, Name: id.Name, NUMANode: n.NUMANode,
		Simulated: ptr.Deref(n.Simulated, ""),
	}
	if !n.Offered() {
		d.Withheld = *n.Withheld
	}
	if n.PCI != nil {
		f := b.m.Function(*n.PCI)
		d.Address, d.Link = n.PCI.String(), link(f)
		if f != nil && (f.DeviceName != nil || b.o.Products[d.Address] != "") {
			d.Model = b.product(f)
		}
	}
	if n.Interface != nil {
		d.Interface = n.Interface.Name
		d.NetworkMbps = ptr.Deref(n.Interface.SpeedMbps, 0)
	}
	if n.RDMA != nil {
		d.RDMA, d.RDMAUnnamed = n.RDMA.Name, n.RDMA.Name == ""
	}
	b.published(&d)
	if n.Share != nil {
		own := DeviceID{d.Driver, d.Name}
		d.SharedBy = b.claims.sharers(b.claims.of(own))
		d.Slots = &Share{b.o.Published[own].UsedSlots, n.Share.Slots}
		if n.Share.Bandwidth > 0 {
			d.Bandwidth = &Share{b.o.Published[own].UsedBandwidth, n.Share.Bandwidth}
		}
		b.addTwin(&d, n)
	}
	return d
}

// addTwin adds to a NIC that is shared the device that is all of it, and who holds that. Then
// nobody can have a share.
func (b *builder) addTwin(d *Device, n model.NIC) {
	if !n.Share.AlsoExclusive {
		return
	}
	twin := DeviceID(slicecodec.TwinID(model.DeviceID{Driver: d.Driver, Name: d.Name}))
	d.Twin = twin.Name
	whole := b.claims.keysOf(twin)
	if d.HeldWhole = len(whole) > 0; d.HeldWhole {
		d.Claims, d.UsedUp = sortedKeys(append(d.Claims, whole...)), true
	}
}

// published adds what claims and slices say of a device that is offered.
func (b *builder) published(d *Device) {
	id := DeviceID{d.Driver, d.Name}
	d.Claims = b.claims.keysOf(id)
	said := b.o.Published[id]
	d.Shared, d.UsedUp, d.Taint = said.Shared, said.UsedUp, said.Taint
}
