// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// RouteConfig is a route to add, through one link.
type RouteConfig struct {
	// Destination is what it leads to; zero length for a default route.
	Destination netip.Prefix `json:"destination"`
	// Gateway is the next hop, and Source the address that packets shall come
	// from; invalid for none.
	Gateway netip.Addr `json:"gateway,omitzero"`
	Source  netip.Addr `json:"source,omitzero"`
	// Scope is RT_SCOPE_*: 0 for the whole network, 253 for the link.
	Scope uint8 `json:"scope,omitempty"`
	// Table is the routing table; 0 is main.
	Table uint32 `json:"table,omitempty"`
	// Metric is the priority, the lower the better; 0 is the kernel's default.
	Metric uint32 `json:"metric,omitempty"`
	// MTU is that of packets on this route, in bytes; 0 is the link's.
	MTU uint32 `json:"mtu,omitempty"`
	// OnLink takes the gateway to be on the link, whatever the addresses say.
	OnLink bool `json:"onLink,omitempty"`
}

// String is the route much as ip prints it.
func (r RouteConfig) String() string {
	text := r.Destination.String()
	if r.Gateway.IsValid() {
		text += " via " + r.Gateway.String()
	}
	if r.Source.IsValid() {
		text += " src " + r.Source.String()
	}
	text += fmt.Sprintf(" table %d", r.table())
	if r.Metric != 0 {
		text += fmt.Sprintf(" metric %d", r.Metric)
	}
	if r.MTU != 0 {
		text += fmt.Sprintf(" mtu %d", r.MTU)
	}
	if r.OnLink {
		text += " onlink"
	}
	return text
}

func (r RouteConfig) table() uint32 {
	if r.Table == unix.RT_TABLE_UNSPEC {
		return unix.RT_TABLE_MAIN
	}
	return r.Table
}

// AddRoute adds a route. The link must be up, and the gateway reachable. It is
// no error when this very route is there already.
func (c *Conn) AddRoute(index int, r RouteConfig) error {
	err := c.change(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, r.data(index)...)
	if errors.Is(err, unix.EEXIST) {
		err = c.inPlaceOf(index, r)
	}
	if err != nil {
		return fmt.Errorf("add route %s through link %d: %w", r, index, err)
	}
	return nil
}

func (r RouteConfig) data(index int) []nl.NetlinkRequestData {
	header := nl.NewRtMsg()
	header.Family = family(r.Destination.Addr())
	header.Dst_len = uint8(r.Destination.Bits())
	header.Protocol = unix.RTPROT_STATIC
	header.Scope = r.Scope
	header.Table = unix.RT_TABLE_UNSPEC // RTA_TABLE holds more
	if r.OnLink {
		header.Flags = unix.RTNH_F_ONLINK
	}
	data := []nl.NetlinkRequestData{header,
		nl.NewRtAttr(unix.RTA_DST, r.Destination.Masked().Addr().AsSlice()),
		nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(r.table())),
		nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(index))),
	}
	if r.Gateway.IsValid() {
		data = append(data, nl.NewRtAttr(unix.RTA_GATEWAY, r.Gateway.AsSlice()))
	}
	if r.Source.IsValid() {
		data = append(data, nl.NewRtAttr(unix.RTA_PREFSRC, r.Source.AsSlice()))
	}
	if r.Metric != 0 {
		data = append(data, nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(r.Metric)))
	}
	if r.MTU != 0 {
		metrics := nl.NewRtAttr(unix.RTA_METRICS, nil)
		metrics.AddRtAttr(unix.RTAX_MTU, nl.Uint32Attr(r.MTU))
		data = append(data, metrics)
	}
	return data
}

// ip6Metric is what the kernel gives an IPv6 route without a metric
// (IP6_RT_PRIO_USER, include/uapi/linux/ipv6_route.h).
const ip6Metric = 1024

// inPlaceOf is nil when the route that keeps another one out is the same. It
// looks at the routes through the link alone, however many others there are.
func (c *Conn) inPlaceOf(index int, want RouteConfig) error {
	through := nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(index)))
	routes, err := c.routesOf(family(want.Destination.Addr()), 0, nil, through)
	if err != nil {
		return err
	}
	metric := want.Metric
	if metric == 0 && want.Destination.Addr().Is6() {
		metric = ip6Metric
	}
	for _, r := range routes {
		if r.Destination != want.Destination.Masked() || r.Table != want.table() || r.Metric != metric {
			continue
		}
		have := RouteConfig{Destination: r.Destination, Gateway: r.Gateway, Source: r.Source, Scope: r.Scope,
			Table: r.Table, Metric: want.Metric, MTU: r.MTU, OnLink: r.OnLink}
		want.Destination, want.Table = want.Destination.Masked(), want.table()
		if have == want && slices.Equal(r.Links, []int{index}) {
			return nil
		}
		return fmt.Errorf("%w: %s through link %v", unix.EEXIST, r.Text, r.Links)
	}
	return fmt.Errorf("%w: a route through another link has its place", unix.EEXIST)
}

func family(ip netip.Addr) uint8 {
	if ip.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
