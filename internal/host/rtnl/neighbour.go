// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of RTM_NEWNEIGH that x/sys does not name
// (include/uapi/linux/neighbour.h).
const (
	ndaDst       = 1
	ndaLLAddr    = 2
	ndaCacheinfo = 3
	ndaProbes    = 4
	nudPermanent = 0x80
)

// Neighbours lists the permanent ARP and NDP entries of a link; others the
// kernel learns again.
func (c *Conn) Neighbours(index int) ([]Saved, error) {
	var list []Saved
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		header := make(raw, unix.SizeofNdMsg)
		header[0] = family
		err := c.each("neighbours", unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, func(body []byte) error {
			saved, of, permanent, err := parseNeighbour(body)
			if err == nil && of == index && permanent {
				list = append(list, saved)
			}
			return err
		}, header)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// parseNeighbour reads a body; of is the link's ifindex.
func parseNeighbour(body []byte) (s Saved, of int, permanent bool, err error) {
	m, err := parseMessage(body, unix.SizeofNdMsg)
	if err != nil {
		return Saved{}, 0, false, err
	}
	// struct ndmsg: family, padding, ifindex, state, flags, type.
	of = int(int32(binary.NativeEndian.Uint32(m.header[4:8])))
	permanent = binary.NativeEndian.Uint16(m.header[8:10]) == nudPermanent
	clear(m.header[4:8])
	return Saved{Text: neighbourText(m), Message: m.without(ndaCacheinfo, ndaProbes)}, of, permanent, nil
}

func neighbourText(m message) string {
	ip, _ := netip.AddrFromSlice(m.get(ndaDst))
	return fmt.Sprintf("%s lladdr %s", ip, net.HardwareAddr(m.get(ndaLLAddr)))
}

// SetNeighbour adds a permanent entry, in place of one for the same address.
func (c *Conn) SetNeighbour(index int, ip netip.Addr, mac net.HardwareAddr) error {
	err := c.change(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, neighbourHeader(index, ip),
		nl.NewRtAttr(ndaDst, ip.AsSlice()), nl.NewRtAttr(ndaLLAddr, mac))
	if err != nil {
		return fmt.Errorf("add neighbour %s lladdr %s to link %d: %w", ip, mac, index, err)
	}
	return nil
}

func neighbourHeader(index int, ip netip.Addr) raw {
	header := make(raw, unix.SizeofNdMsg)
	header[0] = family(ip)
	binary.NativeEndian.PutUint32(header[4:8], uint32(index))
	binary.NativeEndian.PutUint16(header[8:10], nudPermanent)
	return header
}

// RestoreNeighbour puts a saved entry back, in place of one for the same
// address.
func (c *Conn) RestoreNeighbour(index int, s Saved) error {
	m, err := parseMessage(s.Message, unix.SizeofNdMsg)
	if err == nil {
		binary.NativeEndian.PutUint32(m.header[4:8], uint32(index))
		err = c.change(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, raw(m.without()))
	}
	if err != nil {
		return fmt.Errorf("restore neighbour %s on link %d: %w", s.Text, index, err)
	}
	return nil
}
