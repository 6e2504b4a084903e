// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/machine/facts"
)

// classInfiniBand is PCI_CLASS_NETWORK_INFINIBAND of include/linux/pci_ids.h.
const classInfiniBand = 0x0207

// Default MTUs, where the facts have none.
const (
	mtuEthernet   = 1500
	mtuInfiniBand = 2044
)

// renderNICs adds interfaces and RDMA devices in the order of their addresses, in which
// the kernel numbers them when it probes in order.
func (r *renderer) renderNICs(functions []function) {
	nics := slices.DeleteFunc(slices.Clone(functions), func(f function) bool {
		return len(f.devices) == 0 || !r.isNIC(f.devices[0])
	})
	slices.SortFunc(nics, func(a, b function) int { return a.address.Compare(b.address) })
	n := nicRenderer{renderer: r, names: ruleNames(nics), ifindex: 1}
	n.loopback()
	for i := range nics {
		f := &nics[i]
		for port, d := range f.devices {
			if hasInterface(f, d) {
				n.ifindex++
				n.netDevice(f, d, port)
			}
			if d.RDMA != "" && (port == 0 || d.RDMA != f.devices[0].RDMA) {
				n.rdmaDevice(f, d, port)
				n.rdma++
			}
		}
	}
	if n.rdma > 0 {
		n.file("devices/virtual/misc/rdma_cm/dev", "10:122")
		n.link("class/misc/rdma_cm", "devices/virtual/misc/rdma_cm")
	}
}

func (r *renderer) isNIC(d *facts.Device) bool {
	return slices.ContainsFunc(r.facts.NICs, func(n facts.Device) bool { return n.Address == d.Address })
}

// hasInterface says whether the function shows a network interface.
func hasInterface(f *function, d *facts.Device) bool {
	return !d.IBOnly && (f.driver != driverEFA || d.Ifname != "")
}

func infiniBand(d *facts.Device) bool { return d.Class>>8 == classInfiniBand }

type nicRenderer struct {
	*renderer
	names   map[*facts.Device]string
	ifindex int
	rdma    int
}

func (n *nicRenderer) loopback() {
	const dir = "devices/virtual/net/lo"
	n.file(dir+"/address", "00:00:00:00:00:00")
	n.number(dir+"/ifindex", n.ifindex)
	n.number(dir+"/mtu", 65536)
	n.file(dir+"/operstate", "unknown")
	n.file(dir+"/type", "772")
	n.link("class/net/lo", dir)
}

// netDevice adds net/NAME below a function.
func (n *nicRenderer) netDevice(f *function, d *facts.Device, port int) {
	name := n.names[d]
	dir := path.Join(f.dir, "net", name)
	mtu, linkType := mtuEthernet, 1 // ARPHRD_ETHER
	if infiniBand(d) {
		mtu, linkType = mtuInfiniBand, 32 // ARPHRD_INFINIBAND
	}
	n.file(dir+"/address", n.hardwareAddress(f, d, port))
	n.number(dir+"/ifindex", n.ifindex)
	n.number(dir+"/iflink", n.ifindex)
	n.number(dir+"/type", linkType)
	n.number(dir+"/mtu", ptr.Deref(d.MTU, mtu))
	n.file(dir+"/operstate", "up")
	n.number(dir+"/carrier", 1)
	n.number(dir+"/dev_port", port)
	n.file(dir+"/dev_id", fmt.Sprintf("0x%x", port))
	if d.SpeedMbps != nil {
		n.number(dir+"/speed", *d.SpeedMbps)
	}
	n.raw(dir+"/uevent", fmt.Sprintf("INTERFACE=%s\nIFINDEX=%d\n", name, n.ifindex))
	n.link(dir+"/device", f.dir)
	n.link(dir+"/subsystem", "class/net")
	n.link(path.Join("class/net", name), dir)
}

// hardwareAddress makes up a locally administered address, the same each time.
// InfiniBand's has 20 bytes, the last eight being the port's GUID.
func (n *nicRenderer) hardwareAddress(f *function, d *facts.Device, port int) string {
	digest := n.digest(f, port)
	octets := digest[:6]
	octets[0] = octets[0]&^0x01 | 0x02
	if infiniBand(d) {
		octets = slices.Concat([]byte{0, 0, 0x10, 0x27, 0xfe, 0x80, 0, 0, 0, 0, 0, 0}, digest[:8])
	}
	text := make([]string, len(octets))
	for i, o := range octets {
		text[i] = fmt.Sprintf("%02x", o)
	}
	return strings.Join(text, ":")
}

func (n *nicRenderer) digest(f *function, port int) []byte {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d", n.facts.Name, f.address, port)
	return h.Sum(nil)
}

// rdmaDevice adds infiniband/NAME below a function and its device files.
func (n *nicRenderer) rdmaDevice(f *function, d *facts.Device, port int) {
	dir := path.Join(f.dir, "infiniband", d.RDMA)
	guid := n.digest(f, port)
	guidText := fmt.Sprintf("%02x%02x:%02x%02x:%02x%02x:%02x%02x",
		guid[0], guid[1], guid[2], guid[3], guid[4], guid[5], guid[6], guid[7])
	nodeType, layer := "1: CA", "Ethernet"
	switch {
	case infiniBand(d):
		layer = "InfiniBand"
	case f.driver == driverEFA:
		nodeType, layer = "7: unspecified", "Unspecified"
	}
	n.file(dir+"/node_type", nodeType)
	n.file(dir+"/node_guid", guidText)
	n.file(dir+"/sys_image_guid", guidText)
	n.file(dir+"/ports/1/link_layer", layer)
	n.file(dir+"/ports/1/state", "4: ACTIVE")
	n.file(dir+"/ports/1/phys_state", "5: LinkUp")
	if hasInterface(f, d) {
		n.file(dir+"/ports/1/gid_attrs/ndevs/0", n.names[d])
	}
	n.link(dir+"/device", f.dir)
	n.link(dir+"/subsystem", "class/infiniband")
	n.link(path.Join("class/infiniband", d.RDMA), dir)
	n.deviceFile(f, "infiniband_verbs", "uverbs"+strconv.Itoa(n.rdma), d.RDMA, 192+n.rdma)
	if f.driver == "mlx5_core" {
		n.deviceFile(f, "infiniband_mad", "umad"+strconv.Itoa(n.rdma), d.RDMA, n.rdma)
		n.deviceFile(f, "infiniband_mad", "issm"+strconv.Itoa(n.rdma), d.RDMA, 64+n.rdma)
	}
}

// deviceFile adds the class directory of /dev/infiniband/NAME, major 231
// (Documentation/admin-guide/devices.txt).
func (n *nicRenderer) deviceFile(f *function, class, name, rdma string, minor int) {
	dir := path.Join(f.dir, class, name)
	n.file(dir+"/ibdev", rdma)
	n.file(dir+"/dev", fmt.Sprintf("231:%d", minor))
	n.link(dir+"/device", f.dir)
	n.link(path.Join("class", class, name), dir)
}
