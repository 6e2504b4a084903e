// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/plural"
)

// links wants the interfaces of RDMA NICs up, with a carrier, where anybody has set them
// up or needs them. How fast they are and how often the carrier came and went is told.
func links(h Host, r *report) {
	for _, n := range h.rdmaNICs() {
		if n.Interface == nil {
			continue
		}
		file := path.Join("sys/class/net", n.Interface.Name, "operstate")
		state, err := h.read(file)
		switch {
		case err != nil:
			r.unknown(subjectOf(n), "/"+file, err)
		case state == "up":
			h.goodLink(n, r)
		case spare(n):
			r.ok(subjectOf(n), "/"+file, state+": "+whySpare)
		default:
			r.wrong(subjectOf(n), "/"+file, state, "up", "ip link set INTERFACE up; with no carrier look at cable, optics and switch port")
		}
	}
}

const whySpare = "nobody has set it up; a claim that gets it does"

// spare says whether a NIC is free and nobody has set its interface up: neither an
// administrator, nor a HostPolicy with up, nor what gives it addresses. That is how a host
// leaves the NICs that are there for claims. Where nobody knows, it is not.
func spare(n model.NIC) bool {
	i := n.Interface
	return i != nil && i.Up != nil && !*i.Up && len(i.Addresses) == 0 && n.Withheld == nil
}

// goodLink tells of a link that is up. From one look nobody knows whether it flaps.
func (h Host) goodLink(n model.NIC, r *report) {
	found := "up"
	if n.Interface.SpeedMbps != nil {
		found += ", " + speed(*n.Interface.SpeedMbps)
	}
	file := path.Join("sys/class/net", n.Interface.Name, "carrier_changes")
	changes, err := h.number(file)
	switch {
	case err == nil:
		found += ", " + plural.Count(changes, "change", "changes") + " of its carrier"
	case !errors.Is(err, fs.ErrNotExist):
		r.unknown(subjectOf(n), "/"+file, err)
		return
	}
	r.ok(subjectOf(n), "/sys/class/net/"+n.Interface.Name+"/{operstate,speed,carrier_changes}", found)
}

func speed(mbps int) string { return fmt.Sprintf("%.4g Gbit/s", float64(mbps)/1000) }

// leastMTU holds a packet of RDMA of 4096 bytes with its headers.
const leastMTU = 4200

// mtu wants room for the largest packet of RDMA over Ethernet.
func mtu(h Host, r *report) {
	for _, n := range h.rdmaNICs() {
		if n.Interface == nil || n.Interface.MTU == nil || n.RDMA.LinkLayer == nil || *n.RDMA.LinkLayer != "Ethernet" {
			continue
		}
		source, found := "/sys/class/net/"+n.Interface.Name+"/mtu", fmt.Sprint(*n.Interface.MTU)
		if *n.Interface.MTU < leastMTU {
			r.wrong(subjectOf(n), source, found, "4200 or more, usually 9000, on the whole network", "ip link set INTERFACE mtu 9000, where the switches carry it")
			continue
		}
		r.ok(subjectOf(n), source, found)
	}
}

// arp wants NICs that share a network to answer for their own addresses only: else one
// answers for all, and the traffic of all comes in by it.
func arp(h Host, r *report) {
	for _, n := range h.sharingNetworks() {
		for _, want := range []struct {
			setting, values string
			right           func(string) bool
		}{
			{"arp_ignore", "1", func(v string) bool { return v == "1" || v == "2" }},
			{"arp_announce", "2", func(v string) bool { return v == "2" }},
			{"rp_filter", "0 or 2", func(v string) bool { return v == "0" || v == "2" }},
		} {
			value, file, err := h.effective(n.Interface.Name, want.setting)
			switch {
			case err != nil:
				r.unknown(subjectOf(n), "/"+file, err)
			case want.right(value):
				r.ok(subjectOf(n), "/"+file, want.setting+" "+value)
			default:
				r.wrong(subjectOf(n), "/"+file, want.setting+" "+value, want.values,
					"sysctl -w net.ipv4.conf.INTERFACE."+want.setting+"="+want.values[:1])
			}
		}
	}
}

// effective is a setting of an interface: the greater of its own and all's
// (Documentation/networking/ip-sysctl.rst).
func (h Host) effective(ifname, setting string) (value, file string, err error) {
	const conf = "proc/sys/net/ipv4/conf"
	file = path.Join(conf, ifname, setting)
	own, err := h.number(file)
	if err != nil {
		return "", file, err
	}
	all, err := h.number(path.Join(conf, "all", setting))
	if err != nil {
		return "", path.Join(conf, "all", setting), err
	}
	return fmt.Sprint(max(own, all)), file, nil
}

// sharingNetworks are the RDMA NICs that have an IPv4 address of a network of which
// another one has one too.
func (h Host) sharingNetworks() []model.NIC {
	on := map[netip.Prefix]int{}
	nics := h.rdmaNICs()
	networks := func(n model.NIC) map[netip.Prefix]bool {
		all := map[netip.Prefix]bool{}
		if n.Interface != nil {
			for _, a := range n.Interface.Addresses {
				if a.Addr().Is4() && a.Bits() < 32 {
					all[a.Masked()] = true
				}
			}
		}
		return all
	}
	for _, n := range nics {
		for p := range networks(n) {
			on[p]++
		}
	}
	var sharing []model.NIC
	for _, n := range nics {
		for p := range networks(n) {
			if on[p] > 1 {
				sharing = append(sharing, n)
				break
			}
		}
	}
	return sharing
}
