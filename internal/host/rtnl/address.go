// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of RTM_NEWADDR and values that x/sys does not name
// (include/uapi/linux/if_addr.h).
const (
	ifaProto     = 11 // IFA_PROTO, since Linux 5.18
	protoStatic  = 0  // not set: an administrator's or a client's
	keptFlags    = unix.IFA_F_HOMEADDRESS | unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MCAUTOJOIN | unix.IFA_F_NODAD
	addressBytes = unix.SizeofIfAddrmsg
)

// Address is an address of a link.
type Address struct {
	Saved
	// Prefix is the address itself with its prefix length.
	Prefix netip.Prefix
	// Index is the link's ifindex.
	Index int
	// Global is true in the scope of the whole network (RT_SCOPE_UNIVERSE).
	Global bool
	// Kernel is true for an address that the kernel made itself and makes
	// again: link-local, from router advertisements, temporary.
	Kernel bool
}

// Addresses lists the addresses of the namespace, both families.
func (c *Conn) Addresses() ([]Address, error) {
	messages, err := c.dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, nl.NewIfInfomsg(unix.AF_UNSPEC))
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var list []Address
	for _, m := range messages {
		a, err := parseAddress(m)
		if err != nil {
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		list = append(list, a)
	}
	return list, nil
}

func parseAddress(body []byte) (Address, error) {
	m, err := parseMessage(body, addressBytes)
	if err != nil {
		return Address{}, err
	}
	// struct ifaddrmsg: family, prefixlen, flags, scope, index.
	family, bits, scope := m.header[0], int(m.header[1]), m.header[3]
	flags := uint32(m.header[2])
	if all, ok := m.number(unix.IFA_FLAGS); ok {
		flags = all
	}
	// IFA_LOCAL is the address, IFA_ADDRESS the peer's where there is one;
	// IPv6 without a peer has IFA_ADDRESS only.
	own := m.get(unix.IFA_LOCAL)
	if own == nil {
		own = m.get(unix.IFA_ADDRESS)
	}
	ip, ok := netip.AddrFromSlice(own)
	if !ok || bits > ip.BitLen() {
		return Address{}, fmt.Errorf("an address of %d bytes and prefix length %d", len(own), bits)
	}
	a := Address{
		Prefix: netip.PrefixFrom(ip, bits),
		Index:  int(binary.NativeEndian.Uint32(m.header[4:8])),
		Global: scope == unix.RT_SCOPE_UNIVERSE,
	}
	proto := m.get(ifaProto)
	dynamic := flags&unix.IFA_F_PERMANENT == 0 && flags&unix.IFA_F_TENTATIVE == 0
	a.Kernel = len(proto) == 1 && proto[0] != protoStatic ||
		family == unix.AF_INET6 && proto == nil && (scope == unix.RT_SCOPE_LINK || dynamic)

	m.header[2] = 0
	clear(m.header[4:8])
	kept := nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(flags&keptFlags)).Serialize()
	// The label is IPv4's, and part of the address; a plain one is the link's
	// name, which must not come back under another.
	drop := []uint16{unix.IFA_CACHEINFO, unix.IFA_FLAGS, ifaProto}
	label := unix.ByteSliceToString(m.get(unix.IFA_LABEL))
	if !strings.Contains(label, ":") {
		drop = append(drop, unix.IFA_LABEL)
		label = ""
	}
	a.Message = append(m.without(drop...), kept...)
	a.Text = addressText(m, a, label, flags)
	return a, nil
}

func addressText(m message, a Address, label string, flags uint32) string {
	text := a.Prefix.String()
	if peer, ok := netip.AddrFromSlice(m.get(unix.IFA_ADDRESS)); ok && peer != a.Prefix.Addr() {
		text += " peer " + peer.String()
	}
	if brd, ok := netip.AddrFromSlice(m.get(unix.IFA_BROADCAST)); ok {
		text += " brd " + brd.String()
	}
	if metric, ok := m.number(unix.IFA_RT_PRIORITY); ok {
		text += fmt.Sprintf(" metric %d", metric)
	}
	if flags&unix.IFA_F_NOPREFIXROUTE != 0 {
		text += " noprefixroute"
	}
	if label != "" {
		text += " " + label
	}
	return text
}

// AddAddress adds a plain address. IPv6 comes without duplicate address
// detection, so that it can be used at once. It is no error when the address is
// there already.
func (c *Conn) AddAddress(index int, p netip.Prefix) error {
	header := nl.NewIfAddrmsg(unix.AF_INET)
	header.Prefixlen = uint8(p.Bits())
	header.Index = uint32(index)
	ip := p.Addr().AsSlice()
	data := []nl.NetlinkRequestData{header, nl.NewRtAttr(unix.IFA_LOCAL, ip), nl.NewRtAttr(unix.IFA_ADDRESS, ip)}
	switch {
	case p.Addr().Is6():
		header.Family = unix.AF_INET6
		data = append(data, nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(unix.IFA_F_NODAD)))
	case p.Bits() <= 30:
		data = append(data, nl.NewRtAttr(unix.IFA_BROADCAST, broadcast(p)))
	}
	err := c.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, data...)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add address %s to link %d: %w", p, index, err)
	}
	return nil
}

// broadcast is the last address of an IPv4 prefix.
func broadcast(p netip.Prefix) []byte {
	ip := p.Masked().Addr().As4()
	last := binary.BigEndian.Uint32(ip[:]) | 0xffffffff>>p.Bits()
	return binary.BigEndian.AppendUint32(nil, last)
}

// DeleteAddress takes a saved address away. It is no error when it is gone.
func (c *Conn) DeleteAddress(index int, s Saved) error {
	m, err := parseMessage(s.Message, addressBytes)
	if err == nil {
		binary.NativeEndian.PutUint32(m.header[4:8], uint32(index))
		// A label is compared, and need not be repeated.
		err = c.change(unix.RTM_DELADDR, 0, raw(m.without(unix.IFA_LABEL, unix.IFA_FLAGS)))
	}
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("delete address %s of link %d: %w", s.Text, index, err)
	}
	return nil
}

// RestoreAddress puts a saved address back, without duplicate address
// detection: it was this link's address before.
func (c *Conn) RestoreAddress(index int, s Saved) error {
	if err := c.restoreAddress(index, s); err != nil {
		return fmt.Errorf("restore address %s on link %d: %w", s.Text, index, err)
	}
	return nil
}

func (c *Conn) restoreAddress(index int, s Saved) error {
	m, err := parseMessage(s.Message, addressBytes)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint32(m.header[4:8], uint32(index))
	flags, _ := m.number(unix.IFA_FLAGS)
	if m.header[0] == unix.AF_INET6 && flags&unix.IFA_F_NODAD == 0 {
		quiet := append(m.without(unix.IFA_FLAGS),
			nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(flags|unix.IFA_F_NODAD)).Serialize()...)
		err := c.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, raw(quiet))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		// A replacement starts no detection, and takes the flag away again
		// (net/ipv6/addrconf.c, inet6_addr_modify).
		return c.change(unix.RTM_NEWADDR, unix.NLM_F_REPLACE, raw(m.without()))
	}
	err = c.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, raw(m.without()))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
