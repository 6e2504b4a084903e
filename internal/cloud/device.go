// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"slices"
	"strings"

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
	// RDMA is the name of its RDMA device in hardware, such as rdmap16s27.
	RDMA string `json:"rdma,omitempty"`
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
	if n.RDMA != nil && !n.RDMA.Software {
		d.RDMA = n.RDMA.Name
	}
	return d
}

// HasMAC says whether the device is an interface: IndexMAC finds no other.
func (d Device) HasMAC() bool { return d.PermanentMAC != "" || d.MAC != "" }

// IndexMAC finds the entry that a cloud has of a device, -1 without one: by the
// permanent address, which a pod's configuration cannot change, then by the
// present one. Some clouds write addresses without colons, or in capitals.
func IndexMAC[T any](d Device, entries []T, mac func(T) string) int {
	for _, text := range []string{d.PermanentMAC, d.MAC} {
		wanted := digits(text)
		if wanted == "" {
			continue
		}
		if at := slices.IndexFunc(entries, func(e T) bool { return digits(mac(e)) == wanted }); at >= 0 {
			return at
		}
	}
	return -1
}

// digits are the twelve of a MAC address in lower case; "" of anything else.
func digits(mac string) string {
	mac = strings.ToLower(strings.NewReplacer(":", "", "-", "").Replace(mac))
	if len(mac) != 12 || strings.Trim(mac, "0123456789abcdef") != "" {
		return ""
	}
	return mac
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
