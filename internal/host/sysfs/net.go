// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// NetDevice is one network interface (/sys/class/net/*) of the network
// namespace that the tree was mounted in.
type NetDevice struct {
	Name string
	// Path is its directory below /sys, such as
	// "devices/pci0000:8c/0000:8c:00.0/net/gpu0rdma0".
	Path string
	// Virtual is true below devices/virtual.
	Virtual bool
	// Device is the directory of the device the interface belongs to, which
	// the link "device" leads to; nil when virtual.
	Device *string
	// PCI is the address of the nearest PCI function above; nil without one.
	PCI *model.PCIAddress
}

// NetAttributes are what the files of a NetDevice say.
type NetAttributes struct {
	Index   *int // ifindex
	DevPort *int // dev_port, numbers the ports of one function from 0
	// PortName is phys_port_name, such as "p0", or "pf0vf1" on the
	// representor of a virtual function.
	PortName *string
	MAC      *string // address, lower case; nil when all zero
	MTU      *int    // mtu
	State    *string // operstate
	Type     *int    // type, an ARPHRD number (include/uapi/linux/if_arp.h)
	Alias    *string // ifalias
	// SpeedMbps is speed in Mbit/s; nil when down or unknown.
	SpeedMbps *int
}

const netDir = "class/net"

// ReadNetDevices lists the network interfaces with their place in the tree,
// but for those that skip names: a node has a pair of virtual ones for each pod.
func ReadNetDevices(sys fs.FS, skip func(name string) bool) ([]NetDevice, []Problem) {
	r := newReader(sys)
	entries := r.list(netDir)
	devices := make([]NetDevice, 0, len(entries))
	for _, e := range entries {
		// bonding_masters lies beside the interfaces.
		if e.Type().IsRegular() || skip(e.Name()) {
			continue
		}
		name := path.Join(netDir, e.Name())
		dir, err := r.link(name)
		switch {
		case isGone(err):
			continue
		case err == nil && (path.Base(dir) != e.Name() || !strings.HasPrefix(dir, "devices/")):
			err = fmt.Errorf("link leads to %q", dir)
		}
		if err != nil {
			r.problem(name, fmt.Errorf("interface left out: %w", err))
			continue
		}
		devices = append(devices, netDevice(e.Name(), dir))
	}
	return devices, r.problems
}

func netDevice(name, dir string) NetDevice {
	d := NetDevice{Name: name, Path: dir, Virtual: isVirtual(dir)}
	if !d.Virtual {
		d.Device = classDevice(dir)
		d.PCI = pciOf(dir)
	}
	return d
}

// ReadNetAttributes reads the files of one interface. An interface that is
// gone meanwhile yields none.
func ReadNetAttributes(sys fs.FS, d NetDevice) (NetAttributes, []Problem) {
	r := newReader(sys)
	a := NetAttributes{
		Index:   parsed(r, d.Path+"/ifindex", parsePositive),
		DevPort: parsed(r, d.Path+"/dev_port", parseCount),
		MAC:     parsed(r, d.Path+"/address", parseMAC),
		MTU:     parsed(r, d.Path+"/mtu", parsePositive),
		State:   r.text(d.Path + "/operstate"),
		Type:    parsed(r, d.Path+"/type", parseCount),
		Alias:   r.text(d.Path + "/ifalias"),
	}
	if !d.Virtual {
		a.PortName = r.text(d.Path + "/phys_port_name")
		a.SpeedMbps = parsed(r, d.Path+"/speed", parsePositive)
	}
	return a, r.problems
}

// parseMAC reads address. All zero is no address: loopback and tunnels.
func parseMAC(s string) (string, error) {
	if strings.Trim(s, "0:") == "" {
		return "", errNoValue
	}
	for pair := range strings.SplitSeq(s, ":") {
		if _, err := strconv.ParseUint(pair, 16, 8); err != nil || len(pair) != 2 {
			return "", fmt.Errorf("parse %q: want pairs of hexadecimal digits", shorten(s))
		}
	}
	return strings.ToLower(s), nil
}

// isVirtual says whether a device directory has no hardware behind it
// (drivers/base/core.c, virtual_device_parent).
func isVirtual(dir string) bool { return strings.HasPrefix(dir, "devices/virtual/") }

// classDevice is the directory of the device that a class directory such as
// DEVICE/net/eth0 belongs to; nil when the path has no such form.
func classDevice(dir string) *string {
	device := path.Dir(path.Dir(dir))
	if device == "." || device == "devices" {
		return nil
	}
	return &device
}

// isGone says whether an entry disappeared between listing and reading.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// IsRepresentor tells whether a port name is that of a switch port inside the
// NIC, standing for a virtual function or a subfunction: "pf0vf3", "c1pf0sf2"
// (net/core/devlink.c). It is the switch's end, not a NIC.
func IsRepresentor(portName string) bool {
	_, after, found := strings.Cut(portName, "pf")
	return found && strings.ContainsAny(after, "vs") && strings.HasSuffix(strings.TrimRight(after, "0123456789"), "f")
}
