// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"fmt"

	"plumbline.dev/plumbline/lab/vm/pcie"
	"plumbline.dev/plumbline/lab/vm/shape"
)

// standIns returns the function that chooses QEMU's device for each of the
// machine's: a display controller without VGA (class 0x0380) for a GPU, an
// Intel 82574L for a NIC, and an 82576 (QEMU's docs/system/devices/igb.rst) for one
// with virtual functions. It must be asked in any order, so NICs are numbered
// by their place in the shape.
func standIns(s *shape.Shape) pcie.StandIn {
	number := map[string]int{}
	for _, d := range s.Devices {
		if d.Kind == shape.NIC {
			number[d.Address.String()] = len(number) + 1
		}
	}
	return func(d shape.Device) pcie.Device {
		if d.Kind == shape.GPU {
			// The least memory it can have; it is address space only.
			return pcie.Device{Driver: "bochs-display", Props: []pcie.Prop{{Key: "vgamem", Value: "4M"}}}
		}
		i, driver := number[d.Address.String()], "e1000e"
		if d.SRIOV {
			driver = "igb"
		}
		return pcie.Device{Driver: driver, Props: []pcie.Prop{
			{Key: "netdev", Value: fmt.Sprintf("fabric%d", i)},
			{Key: "mac", Value: MAC(i)},
			{Key: "romfile", Value: ""}, // nothing boots from it
		}}
	}
}

// labDevices is what the lab itself adds to the machine.
type labDevices struct {
	// backends come before any device, devices go to bus 00, attached are
	// -device arguments that need one of the devices.
	backends []string
	devices  []pcie.Device
	attached []string
}

// newLabDevices returns the management NIC and the guest's ports to the host.
func newLabDevices(o Options) labDevices {
	user := "user,id=mgmt,ipv6=off"
	for _, f := range o.Forwards {
		user += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-10.0.2.15:%d", f.Host, f.Guest)
	}
	r := labDevices{
		backends: []string{"-netdev", user},
		devices: []pcie.Device{
			{Driver: "virtio-net-pci", ID: "mgmt-nic", Props: []pcie.Prop{
				{Key: "netdev", Value: "mgmt"}, {Key: "mac", Value: MAC(0)}, {Key: "romfile", Value: ""},
			}},
			{Driver: "virtio-serial-pci", ID: "serial", Props: []pcie.Prop{
				{Key: "max_ports", Value: fmt.Sprint(len(o.Logs) + len(o.Sockets) + 1)},
			}},
		},
	}
	add := func(p Port, backend string) {
		n := fmt.Sprint(len(r.attached) / 2)
		r.backends = append(r.backends, "-chardev", backend+",id=port"+n+",path="+escape(p.Path))
		r.attached = append(r.attached, "-device", "virtserialport,bus=serial.0,nr="+n+",chardev=port"+n+",name="+escape(p.Name))
	}
	r.backends = append(r.backends, "-chardev", "socket,server=on,wait=off,id=shell,path="+escape(o.Shell))
	// Port 0 of a virtio console is always a terminal.
	r.attached = append(r.attached, "-device", "virtconsole,bus=serial.0,nr=0,chardev=shell")
	for _, p := range o.Logs {
		add(p, "file")
	}
	for _, p := range o.Sockets {
		add(p, "socket,server=on,wait=off")
	}
	return r
}
