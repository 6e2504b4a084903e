// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of RTM_NEWADDR and values that x/sys does not name
// (include/uapi/linux/if_addr.h).
const (
	ifaProto      = 11 // IFA_PROTO, since Linux 5.18
	protoKernelLL = 3  // IFAPROT_KERNEL_LL, the last of the kernel's own
	keptFlags     = unix.IFA_F_HOMEADDRESS | unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MCAUTOJOIN | unix.IFA_F_NODAD |
		unix.IFA_F_MANAGETEMPADDR
	addressBytes = unix.SizeofIfAddrmsg
)

// Address is an address of a link.
type Address struct {
	Saved
	// Prefix is the address itself with its prefix length.
	Prefix netip.Prefix
	// Index is the link's ifindex.
	Index int
	// Scope is RT_SCOPE_*, and Global whether it is that of the whole network
	// (RT_SCOPE_UNIVERSE).
	Scope  uint8
	Global bool
	// Kernel is true for an address that the kernel made itself and makes
	// again: link-local, from router advertisements, temporary.
	Kernel bool
}

// Addresses lists the addresses of the namespace, both families.
func (c *Conn) Addresses() ([]Address, error) { return c.addresses(0) }

// addresses lists those of one link, of all with 0.
func (c *Conn) addresses(index int) ([]Address, error) {
	var list []Address
	var origins []origin
	reported := false
	err := c.eachAddress(index, func(body []byte) error {
		a, o, err := parseAddress(body, c.now())
		reported = reported || o.reported
		list, origins = append(list, a), append(origins, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, o := range origins {
		list[i].Kernel = o.kernel || o.likely && !reported
	}
	return list, nil
}

// eachAddress calls a function with the messages of a link's addresses, of all links'
// with index 0.
func (c *Conn) eachAddress(index int, take func(body []byte) error) error {
	header := nl.NewIfAddrmsg(unix.AF_UNSPEC)
	header.Index = uint32(index)
	wanted := func(body []byte) bool {
		return len(body) < addressBytes || binary.NativeEndian.Uint32(body[4:8]) == uint32(index)
	}
	if index == 0 {
		wanted = nil
	}
	return c.eachOf("addresses", unix.RTM_GETADDR, unix.RTM_NEWADDR, wanted, take, header)
}

// origin is whether the kernel made an address. Since Linux 5.18 it says so of each one
// that it made (IFA_PROTO); of an older kernel it is inferred.
type origin struct {
	reported, kernel, likely bool
}

func originOf(m message, flags uint32) origin {
	if m.header[0] != unix.AF_INET6 {
		proto := m.get(ifaProto)
		return origin{reported: proto != nil, kernel: kernelMade(proto)}
	}
	proto := m.get(ifaProto)
	dynamic := flags&unix.IFA_F_PERMANENT == 0 && flags&unix.IFA_F_TENTATIVE == 0
	return origin{
		reported: proto != nil,
		kernel:   kernelMade(proto) || flags&unix.IFA_F_TEMPORARY != 0,
		likely:   proto == nil && (dynamic || m.header[3] == unix.RT_SCOPE_LINK),
	}
}

func kernelMade(proto []byte) bool {
	return len(proto) == 1 && proto[0] != 0 && proto[0] <= protoKernelLL
}

func parseAddress(body []byte, now time.Time) (Address, origin, error) {
	m, err := parseMessage(body, addressBytes)
	if err != nil {
		return Address{}, origin{}, err
	}
	// struct ifaddrmsg: family, prefixlen, flags, scope, index.
	bits, scope := int(m.header[1]), m.header[3]
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
		return Address{}, origin{}, fmt.Errorf("an address of %d bytes and prefix length %d", len(own), bits)
	}
	a := Address{
		Prefix: netip.PrefixFrom(ip, bits),
		Index:  int(binary.NativeEndian.Uint32(m.header[4:8])),
		Scope:  scope,
		Global: scope == unix.RT_SCOPE_UNIVERSE,
	}
	made := originOf(m, flags)
	a.Preferred, a.Valid = ends(m.get(unix.IFA_CACHEINFO), now)

	m.header[2] = 0
	clear(m.header[4:8])
	kept := nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(flags&keptFlags)).Serialize()
	// The label is part of an IPv4 address. One that is the link's name is left out:
	// the link may have another name when the address is restored.
	drop := []uint16{unix.IFA_CACHEINFO, unix.IFA_FLAGS}
	if made.kernel {
		drop = append(drop, ifaProto)
	}
	label := unix.ByteSliceToString(m.get(unix.IFA_LABEL))
	if !strings.Contains(label, ":") {
		drop = append(drop, unix.IFA_LABEL)
		label = ""
	}
	a.Message = append(m.without(drop...), kept...)
	a.Text = addressText(m, a, label, flags)
	return a, made, nil
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

// AddressConfig is an address to give to a link.
type AddressConfig struct {
	// Prefix is the address itself with its prefix length.
	Prefix netip.Prefix
	// Scope is RT_SCOPE_*; 0 is the whole network. The kernel knows that of an
	// IPv6 address itself.
	Scope uint8
	// Valid and Preferred are when the kernel shall take the address away, and
	// stop using it for new connections; zero is never.
	Valid, Preferred time.Time
}

// AddAddress adds a plain address. IPv6 comes without duplicate address
// detection, so that it can be used at once. It is no error when the address is
// there already.
func (c *Conn) AddAddress(index int, p netip.Prefix) error {
	err := c.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, AddressConfig{Prefix: p}.data(index)...)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add address %s to link %d: %w", p, index, err)
	}
	return nil
}

// SetAddress adds an address as AddAddress does, or gives one that is there its
// lifetimes anew.
func (c *Conn) SetAddress(index int, a AddressConfig) error {
	preferred, valid := lifetimes(known(a.Preferred), known(a.Valid), c.now())
	if valid == 0 {
		return fmt.Errorf("set address %s of link %d: valid until %s, which is past", a.Prefix, index, a.Valid)
	}
	data := append(a.data(index), cacheInfo(preferred, valid))
	if err := c.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, data...); err != nil {
		return fmt.Errorf("set address %s of link %d: %w", a.Prefix, index, err)
	}
	return nil
}

func (a AddressConfig) data(index int) []nl.NetlinkRequestData {
	header := nl.NewIfAddrmsg(unix.AF_INET)
	header.Prefixlen = uint8(a.Prefix.Bits())
	header.Index = uint32(index)
	header.Scope = a.Scope
	ip := a.Prefix.Addr().AsSlice()
	data := []nl.NetlinkRequestData{header, nl.NewRtAttr(unix.IFA_LOCAL, ip), nl.NewRtAttr(unix.IFA_ADDRESS, ip)}
	switch {
	case a.Prefix.Addr().Is6():
		header.Family = unix.AF_INET6
		data = append(data, nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(unix.IFA_F_NODAD)))
	case a.Prefix.Bits() <= 30:
		data = append(data, nl.NewRtAttr(unix.IFA_BROADCAST, broadcast(a.Prefix)))
	}
	return data
}

// broadcast is the last address of an IPv4 prefix.
func broadcast(p netip.Prefix) []byte {
	ip := p.Masked().Addr().As4()
	last := binary.BigEndian.Uint32(ip[:]) | 0xffffffff>>p.Bits()
	return binary.BigEndian.AppendUint32(nil, last)
}

// DropAddress deletes an address of a link by its prefix, whatever its other
// attributes. It is no error when it is gone.
func (c *Conn) DropAddress(index int, p netip.Prefix) error {
	addresses, err := c.addresses(index)
	if err != nil {
		return fmt.Errorf("delete address %s of link %d: %w", p, index, err)
	}
	for _, a := range addresses {
		if a.Prefix == p {
			return c.DeleteAddress(index, a.Saved)
		}
	}
	return nil
}

// DeleteAddress deletes a saved address. It is no error when it is gone.
func (c *Conn) DeleteAddress(index int, s Saved) error {
	m, err := parseMessage(s.Message, addressBytes)
	if err == nil {
		binary.NativeEndian.PutUint32(m.header[4:8], uint32(index))
		// The kernel compares the label only where there is one.
		err = c.change(unix.RTM_DELADDR, 0, raw(m.without(unix.IFA_LABEL, unix.IFA_FLAGS)))
	}
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("delete address %s of link %d: %w", s.Text, index, err)
	}
	return nil
}

// RestoreAddress adds a saved address with what is left of its lifetimes, without
// duplicate address detection: it was this link's address before. One that has
// expired is not added.
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
	preferred, valid := lifetimes(s.Preferred, s.Valid, c.now())
	if valid == 0 {
		return nil
	}
	life := cacheInfo(preferred, valid)
	flags, _ := m.number(unix.IFA_FLAGS)
	if m.header[0] == unix.AF_INET6 && flags&unix.IFA_F_NODAD == 0 {
		quiet := append(m.without(unix.IFA_FLAGS),
			nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(flags|unix.IFA_F_NODAD)).Serialize()...)
		err := c.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, raw(quiet), life)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		// A replacement starts no detection, and takes the flag away again
		// (net/ipv6/addrconf.c, inet6_addr_modify).
		return c.change(unix.RTM_NEWADDR, unix.NLM_F_REPLACE, raw(m.without()), life)
	}
	err = c.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, raw(m.without()), life)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// Prefix is an address of a link, for callers that do not restore it.
type Prefix struct {
	netip.Prefix
	// Index is the link's ifindex.
	Index int
	// Global is true in the scope of the whole network (RT_SCOPE_UNIVERSE).
	Global bool
}

// Prefixes lists the addresses of the namespace, both families.
func (c *Conn) Prefixes() ([]Prefix, error) { return c.prefixes(0) }

// PrefixesOf lists the addresses of one link, both families.
func (c *Conn) PrefixesOf(index int) ([]Prefix, error) { return c.prefixes(index) }

func (c *Conn) prefixes(index int) ([]Prefix, error) {
	var list []Prefix
	err := c.eachAddress(index, func(body []byte) error {
		p, err := parsePrefix(body)
		list = append(list, p)
		return err
	})
	return list, err
}

// parsePrefix reads struct ifaddrmsg (family, prefixlen, flags, scope, index)
// and the address after it: IFA_LOCAL, or IFA_ADDRESS where there is no peer.
func parsePrefix(body []byte) (Prefix, error) {
	if len(body) < unix.SizeofIfAddrmsg {
		return Prefix{}, fmt.Errorf("a message of %d bytes, want at least %d", len(body), unix.SizeofIfAddrmsg)
	}
	var own []byte
	rest := body[unix.SizeofIfAddrmsg:]
	for len(rest) >= unix.SizeofRtAttr {
		length, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if length < unix.SizeofRtAttr || length > len(rest) {
			break
		}
		if value := rest[unix.SizeofRtAttr:length]; kind == unix.IFA_LOCAL || kind == unix.IFA_ADDRESS && own == nil {
			own = value
		}
		rest = rest[min(len(rest), (length+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1)):]
	}
	ip, ok := netip.AddrFromSlice(own)
	bits := int(body[1])
	if !ok || bits > ip.BitLen() {
		return Prefix{}, fmt.Errorf("an address of %d bytes and prefix length %d", len(own), bits)
	}
	return Prefix{
		Prefix: netip.PrefixFrom(ip, bits),
		Index:  int(binary.NativeEndian.Uint32(body[4:8])),
		Global: body[3] == unix.RT_SCOPE_UNIVERSE,
	}, nil
}

// forEver is a lifetime without end (INFINITY_LIFE_TIME, net/addrconf.h).
const forEver = math.MaxUint32

// ends reads struct ifa_cacheinfo (include/uapi/linux/if_addr.h): preferred and
// valid, the seconds that are left of an address; two more fields follow. They are
// saved as points in time, which stay right until the address is restored.
func ends(info []byte, now time.Time) (preferred, valid *time.Time) {
	if len(info) < 8 {
		return nil, nil
	}
	return end(info[0:4], now), end(info[4:8], now)
}

func end(seconds []byte, now time.Time) *time.Time {
	n := binary.NativeEndian.Uint32(seconds)
	if n == forEver {
		return nil
	}
	return new(now.Add(time.Duration(n) * time.Second).UTC().Truncate(time.Second))
}

// lifetimes are the seconds that are left; valid is 0 for an address that has expired.
func lifetimes(preferred, valid *time.Time, now time.Time) (preferredFor, validFor uint32) {
	validFor = left(valid, now)
	// The kernel refuses an address that is preferred for longer than valid.
	return min(left(preferred, now), validFor), validFor
}

func left(end *time.Time, now time.Time) uint32 {
	if end == nil {
		return forEver
	}
	seconds := math.Ceil(end.Sub(now).Seconds())
	return uint32(max(0, min(seconds, forEver-1)))
}

func cacheInfo(preferred, valid uint32) *nl.RtAttr {
	info := make([]byte, unix.SizeofIfaCacheinfo)
	binary.NativeEndian.PutUint32(info[0:4], preferred)
	binary.NativeEndian.PutUint32(info[4:8], valid)
	return nl.NewRtAttr(unix.IFA_CACHEINFO, info)
}
