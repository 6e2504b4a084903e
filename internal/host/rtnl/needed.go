// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Prefix is an address of a link and no more, for whoever puts none of it back.
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

// defaultRoutes lists the routes to everywhere, of both families and in all
// tables. A host with a thousand links has thousands of other routes, of which
// nothing is read.
func (c *Conn) defaultRoutes() ([]Route, error) {
	return c.routes(0, func(body []byte) bool { return len(body) < unix.SizeofRtMsg || body[1] == 0 }) // dst_len
}

// SharedRoutes lists the routes through nexthop objects, as defaultRoutes does: few
// hosts have any.
func (c *Conn) SharedRoutes() ([]Route, error) {
	return c.routes(0, func(body []byte) bool {
		shared := len(body) < unix.SizeofRtMsg
		if !shared {
			_ = EachAttribute(body[unix.SizeofRtMsg:], func(kind uint16, _ []byte) error {
				shared = shared || kind == rtaNHID
				return nil
			})
		}
		return shared
	})
}

// Needed says which links the node itself cannot do without, by ifindex, and
// why: those that carry a default route, and those that own an address of
// nodeAddresses (the node's own and the API server's) or lead to it. addresses
// are those of Prefixes. What lies below or above such a link is for the caller
// to follow.
func (c *Conn) Needed(nodeAddresses []netip.Addr, addresses []Prefix) (map[int]string, error) {
	needed := map[int]string{}
	routes, err := c.defaultRoutes()
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		inUse := r.Table == unix.RT_TABLE_MAIN || r.Table == unix.RT_TABLE_DEFAULT
		if !inUse || !r.Unicast {
			continue
		}
		for _, index := range r.Links {
			needed[index] = "carries the default route"
		}
	}
	for _, ip := range nodeAddresses {
		for _, a := range addresses {
			if a.Addr() == ip.Unmap() {
				needed[a.Index] = "owns the node's address " + ip.String()
			}
		}
		index, err := c.routeTo(ip.Unmap())
		if err != nil {
			return nil, err
		}
		if _, known := needed[index]; index != 0 && !known {
			needed[index] = "leads to " + ip.String()
		}
	}
	return needed, nil
}

// routeTo is the ifindex that packets to an address leave by; 0 when they
// cannot.
func (c *Conn) routeTo(ip netip.Addr) (int, error) {
	header := nl.NewRtMsg()
	header.RtMsg = unix.RtMsg{Family: unix.AF_INET, Dst_len: uint8(ip.BitLen())}
	if ip.Is6() {
		header.Family = unix.AF_INET6
	}
	answers, err := c.execute(c.request(unix.RTM_GETROUTE, 0, header,
		nl.NewRtAttr(unix.RTA_DST, ip.AsSlice())), unix.RTM_NEWROUTE)
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return 0, nil
	}
	if err == nil && len(answers) == 0 {
		err = errors.New("no answer")
	}
	if err != nil {
		return 0, fmt.Errorf("look up the route to %s: %w", ip, err)
	}
	m, err := parseMessage(answers[0], unix.SizeofRtMsg)
	if err != nil {
		return 0, fmt.Errorf("look up the route to %s: %w", ip, err)
	}
	if m.header[7] == unix.RTN_LOCAL {
		return 0, nil // the host's own; the answer names lo
	}
	index, _ := m.number(unix.RTA_OIF)
	return int(index), nil
}
