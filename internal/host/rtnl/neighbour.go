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
	ndaIfindex   = 8
	nudPermanent = 0x80
)

// Neighbours lists the permanent ARP and NDP entries of a link; others the
// kernel learns again.
func (c *Conn) Neighbours(index int) ([]Saved, error) {
	header := make(raw, unix.SizeofNdMsg) // of no family: of all
	return c.entries("neighbours", index, header, func(n neighbour) bool { return n.state == nudPermanent })
}

// Proxies lists the addresses that the host answers for on a link (ip neighbour
// show proxy), both families.
func (c *Conn) Proxies(index int) ([]Saved, error) {
	header := make(raw, unix.SizeofNdMsg)
	header[10] = unix.NTF_PROXY // these alone (net/core/neighbour.c, neigh_dump_info)
	return c.entries("proxy neighbours", index, header, func(n neighbour) bool { return n.flags&unix.NTF_PROXY != 0 })
}

// UnicastEntries lists the further unicast addresses that a link receives (bridge fdb
// show self). Multicast entries are left out: those of an administrator cannot be told
// from those that the kernel has joined.
func (c *Conn) UnicastEntries(index int) ([]Saved, error) {
	header := make(raw, unix.SizeofNdMsg)
	header[0] = unix.AF_BRIDGE
	const groupBit = 1
	return c.entries("forwarding entries", index, header, func(n neighbour) bool {
		return n.state == nudPermanent && n.flags == unix.NTF_SELF && len(n.mac) == 6 && n.mac[0]&groupBit == 0
	})
}

// entries lists those of a link that match.
func (c *Conn) entries(what string, index int, header raw, match func(n neighbour) bool) ([]Saved, error) {
	var list []Saved
	err := c.each(what, unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, func(body []byte) error {
		n, err := parseNeighbour(body)
		if err == nil && n.index == index && match(n) {
			list = append(list, n.Saved)
		}
		return err
	}, header, nl.NewRtAttr(ndaIfindex, nl.Uint32Attr(uint32(index))))
	return list, err
}

// neighbour is an entry of the ARP and NDP tables, or of a link's forwarding
// database.
type neighbour struct {
	Saved
	index int // of the link
	state uint16
	flags uint8 // NTF_*
	mac   net.HardwareAddr
}

// parseNeighbour reads a body: struct ndmsg (family, padding, ifindex, state,
// flags, type) and attributes.
func parseNeighbour(body []byte) (neighbour, error) {
	m, err := parseMessage(body, unix.SizeofNdMsg)
	if err != nil {
		return neighbour{}, err
	}
	n := neighbour{
		index: int(int32(binary.NativeEndian.Uint32(m.header[4:8]))),
		state: binary.NativeEndian.Uint16(m.header[8:10]),
		flags: m.header[10],
		mac:   m.get(ndaLLAddr),
	}
	clear(m.header[4:8])
	if n.flags&unix.NTF_PROXY != 0 {
		// Since Linux 6.17 the kernel drops one that is not permanent when the
		// carrier is lost, and the dump does not say which are. ip(8) adds permanent
		// ones.
		binary.NativeEndian.PutUint16(m.header[8:10], nudPermanent)
	}
	n.Saved = Saved{Text: n.text(m), Message: m.without(ndaCacheinfo, ndaProbes)}
	return n, nil
}

func (n neighbour) text(m message) string {
	ip, ok := netip.AddrFromSlice(m.get(ndaDst))
	switch {
	case n.flags&unix.NTF_PROXY != 0:
		return fmt.Sprintf("proxy %s", ip)
	case !ok:
		return fmt.Sprintf("%s self", n.mac)
	}
	return fmt.Sprintf("%s lladdr %s", ip, n.mac)
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

// RestoreNeighbour adds an entry that Neighbours, Proxies or UnicastEntries saved,
// replacing one for the same address.
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
