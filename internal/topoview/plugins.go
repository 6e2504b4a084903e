// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/plural"
)

// plugged adds to a device what a device plugin says of its function: that it offers it
// too, and which pods have it.
func (b *builder) plugged(d *Device, address model.PCIAddress) {
	for _, p := range b.o.Plugins {
		if p.PCI == address {
			d.Resource = p.Resource
			break
		}
	}
	if d.Resource == "" {
		return
	}
	// No driver offers it, so that its class alone tells what it is.
	if d.Kind == KindDisplay || d.Kind == KindAccelerator && d.Name == "" {
		d.Kind = KindGPU
	}
	names := b.claims.plugged[address]
	for _, name := range names {
		d.Plugged = append(d.Plugged, b.claims.keys[name])
	}
	d.Plugged = sortedKeys(d.Plugged)
	d.Claims = sortedKeys(slices.Concat(d.Claims, d.Plugged))
	d.SharedBy = b.claims.sharers(append(b.claims.of(DeviceID{d.Driver, d.Name}), names...))
	var drivers []string
	if d.offered() {
		drivers = append(drivers, d.Driver)
	}
	for _, id := range b.parts[address] {
		drivers = append(drivers, id.Driver)
	}
	if len(drivers) > 0 {
		slices.Sort(drivers)
		d.Owners = append(slices.Compact(drivers), d.Resource)
	}
}

// id names the device among those that are held: as it is published, or by its address.
func (d *Device) id() DeviceID {
	if d.Name == "" {
		return DeviceID{Name: d.Address}
	}
	return DeviceID{d.Driver, d.Name}
}

// addPlugged adds what pods have of device plugins.
func (c *claims) addPlugged(t *Topology, held map[holderName][]DeviceID) {
	byAddress := map[string]DeviceID{}
	t.eachNode(func(n *Node) {
		n.eachDevice(func(d *Device) {
			if _, seen := byAddress[d.Address]; !seen {
				byAddress[d.Address] = d.id()
			}
		})
	})
	for address, names := range c.plugged {
		id, shown := byAddress[address.String()]
		if !shown {
			id = DeviceID{Name: address.String()}
		}
		for _, name := range names {
			held[name] = append(held[name], id)
		}
	}
}

// ResourceText is "nvidia.com/gpu of a device plugin"; empty for a device that none offers.
func (d *Device) ResourceText() string {
	if d.Resource == "" {
		return ""
	}
	return d.Resource + " of a device plugin"
}

// OwnersText is "two owners: gpu.nvidia.com, nvidia.com/gpu"; empty for a device that one
// gives away.
func (d *Device) OwnersText() string {
	if len(d.Owners) == 0 {
		return ""
	}
	return "two owners: " + strings.Join(d.Owners, ", ")
}

// twoOwners notes the devices that several give away, and those that pods have of both.
func (t *Topology) twoOwners() []string {
	owned := map[string][]string{}
	var order, notes, both []string
	for _, d := range t.AllDevices() {
		if len(d.Owners) == 0 {
			continue
		}
		name, owners := d.id().Name, strings.Join(d.Owners[:len(d.Owners)-1], ", ")+" and, as "+d.Resource+", a device plugin"
		if owned[owners] == nil {
			order = append(order, owners)
		}
		owned[owners] = append(owned[owners], name)
		if len(d.Plugged) > 0 && len(d.Claims) > len(d.Plugged) {
			both = append(both, fmt.Sprintf("%s is held twice: by a claim, and by a pod that has %s of a device plugin", name, d.Resource))
		}
	}
	for _, owners := range order {
		names := owned[owners]
		notes = append(notes, fmt.Sprintf("%s two owners, %s, and either gives away what the other gave: %s; switch off one of the two for the node",
			plural.Count(len(names), "device has", "devices have"), owners, strings.Join(names, ", ")))
	}
	return append(notes, both...)
}
