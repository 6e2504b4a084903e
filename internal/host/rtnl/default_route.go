// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// defaultRoutes lists the default routes, of both families and in all tables. Other
// routes, of which a host with a thousand links has thousands, are not parsed.
func (c *Conn) defaultRoutes() ([]Route, error) {
	return c.routes(0, func(body []byte) bool { return len(body) < unix.SizeofRtMsg || body[1] == 0 }) // dst_len
}

// Uplinks says which links the node itself needs, by ifindex, and why: those that
// carry a default route, and those that own an address of nodeAddresses (the node's
// own and the API server's) or lead to it. addresses are those of Prefixes. Links
// below or above such a link are the caller's to find.
func (c *Conn) Uplinks(nodeAddresses []netip.Addr, addresses []Prefix) (map[int]string, error) {
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

// routeTo is the ifindex by which packets to an address leave (ip route get); 0 without
// a route.
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
