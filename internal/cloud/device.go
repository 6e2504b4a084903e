// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Device is a NIC by everything a cloud may know it by. What is unknown is
// empty.
type Device struct {
	// Name is the device's name in the ResourceSlice: pci-0000-91-00-0.
	Name string `json:"name"`
	// Interface is its name on the host, such as eth1.
	Interface string `json:"interface,omitempty"`
	// MAC and PermanentMAC are lower case with colons.
	MAC          string `json:"mac,omitempty"`
	PermanentMAC string `json:"permanentMAC,omitempty"`
	// PCI is the address, such as 0000:91:00.0.
	PCI string `json:"pci,omitempty"`
}

// DeviceOf describes a NIC.
func DeviceOf(n model.NIC) Device {
	d := Device{Name: slicecodec.NICName(n)}
	if n.PCI != nil {
		d.PCI = n.PCI.String()
	}
	if i := n.Interface; i != nil {
		d.Interface = i.Name
		if i.MAC != nil {
			d.MAC = *i.MAC
		}
		if i.PermanentMAC != nil {
			d.PermanentMAC = *i.PermanentMAC
		}
	}
	return d
}

// devicesOf describes the NICs that are worth asking about: a withheld one is
// never published.
func devicesOf(m *model.Machine) []Device {
	var devices []Device
	for _, n := range m.NICs {
		if n.Withheld == nil {
			devices = append(devices, DeviceOf(n))
		}
	}
	return devices
}

// key is what an answer is kept under: another NIC in the same slot is another
// device, the same one under another interface name is not.
func (d Device) key() string {
	if d.PermanentMAC != "" {
		return d.Name + " " + d.PermanentMAC
	}
	return d.Name + " " + d.MAC
}
