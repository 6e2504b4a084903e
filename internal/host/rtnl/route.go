// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtaNHID is RTA_NH_ID, which x/sys does not name
// (include/uapi/linux/rtnetlink.h).
const rtaNHID = 30

// Route is a route of any table.
type Route struct {
	Saved
	// Destination is the prefix the route leads to; zero length for a default
	// route.
	Destination netip.Prefix
	// Table is the routing table, 254 for main.
	Table uint32
	// Links are the ifindexes the route leads through, one or more.
	Links []int
	// Gateway is the next hop's address; invalid when there is none, or several.
	Gateway netip.Addr
	// Source is the preferred source address; invalid when there is none.
	Source netip.Addr
	// Metric is the route's priority, the lower the better.
	Metric uint32
	// Scope is RT_SCOPE_*; that of IPv6 routes is always 0.
	Scope uint8
	// MTU is that of packets on this route, in bytes; 0 is the link's.
	MTU uint32
	// OnLink is true when the gateway is taken to be on the link, whatever the
	// addresses say.
	OnLink bool
	// Kernel is true for a route that the kernel makes itself with an address,
	// or from router advertisements.
	Kernel bool
	// Shared is true for a route through a nexthop object (ip nexthop), which is not
	// restored with the route.
	Shared bool
	// Unicast is RTN_UNICAST: false for blackholes and the like, and for those of
	// the host's own and broadcast addresses.
	Unicast bool
}

// Through tells whether the route leads through a link.
func (r Route) Through(index int) bool {
	for _, l := range r.Links {
		if l == index {
			return true
		}
	}
	return false
}

// Routes lists the routes of all tables of the namespace, both families. The
// ifindex own is the link that their Saved part belongs to.
func (c *Conn) Routes(own int) ([]Route, error) {
	return c.routes(own, nil)
}

// routes lists the wanted ones of the routes.
func (c *Conn) routes(own int, wanted func(body []byte) bool) ([]Route, error) {
	four, err := c.routesOf(unix.AF_INET, own, wanted)
	if err != nil {
		return nil, err
	}
	six, err := c.routesOf(unix.AF_INET6, own, wanted)
	return append(four, six...), err
}

func (c *Conn) routesOf(family uint8, own int, wanted func(body []byte) bool, more ...nl.NetlinkRequestData) ([]Route, error) {
	var list []Route
	header := nl.NewRtMsg()
	header.RtMsg = unix.RtMsg{Family: family}
	err := c.eachOf("routes", unix.RTM_GETROUTE, unix.RTM_NEWROUTE, wanted, func(body []byte) error {
		r, cached, err := parseRoute(body, own)
		if err == nil && !cached {
			list = append(list, r)
		}
		return err
	}, append([]nl.NetlinkRequestData{header}, more...)...)
	return list, err
}

// parseRoute reads a body. Cached entries are no configuration.
func parseRoute(body []byte, own int) (r Route, cached bool, err error) {
	m, err := parseMessage(body, unix.SizeofRtMsg)
	if err != nil {
		return Route{}, false, err
	}
	// struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope,
	// type, flags.
	flags := binary.NativeEndian.Uint32(m.header[8:12])
	binary.NativeEndian.PutUint32(m.header[8:12], flags&unix.RTNH_F_ONLINK)
	r = Route{
		Table:   uint32(m.header[4]),
		Scope:   m.header[6],
		Unicast: m.header[7] == unix.RTN_UNICAST,
		OnLink:  flags&unix.RTNH_F_ONLINK != 0,
		MTU:     metricMTU(m.get(unix.RTA_METRICS)),
	}
	if t, ok := m.number(unix.RTA_TABLE); ok {
		r.Table = t
	}
	switch m.header[5] {
	case unix.RTPROT_KERNEL, unix.RTPROT_REDIRECT, unix.RTPROT_RA:
		r.Kernel = true
	}
	if r.Destination, err = routePrefix(m); err != nil {
		return Route{}, false, err
	}
	r.Source, _ = netip.AddrFromSlice(m.get(unix.RTA_PREFSRC))
	r.Gateway, _ = netip.AddrFromSlice(m.get(unix.RTA_GATEWAY))
	r.Metric, _ = m.number(unix.RTA_PRIORITY)
	_, r.Shared = m.number(rtaNHID)
	if index, ok := m.number(unix.RTA_OIF); ok {
		r.Links = append(r.Links, int(index))
		swapIndex(m.get(unix.RTA_OIF), own, 0)
	}
	err = eachHop(m.get(unix.RTA_MULTIPATH), func(hop []byte) {
		r.Links = append(r.Links, int(binary.NativeEndian.Uint32(hop[4:8])))
		hop[2] &= unix.RTNH_F_ONLINK | unix.RTNH_F_PERVASIVE
		swapIndex(hop[4:8], own, 0)
	})
	if err != nil {
		return Route{}, false, err
	}
	r.Message = m.without(unix.RTA_CACHEINFO, rtaNHID)
	r.Text = routeText(m, r)
	return r, flags&unix.RTM_F_CLONED != 0, nil
}

// metricMTU is RTAX_MTU within RTA_METRICS.
func metricMTU(metrics []byte) (mtu uint32) {
	_ = EachAttribute(metrics, func(kind uint16, value []byte) error {
		if n := number(value); kind == unix.RTAX_MTU && n != nil {
			mtu = *n
		}
		return nil
	})
	return mtu
}

func routePrefix(m message) (netip.Prefix, error) {
	family, bits := m.header[0], int(m.header[1])
	ip := netip.IPv4Unspecified()
	if family == unix.AF_INET6 {
		ip = netip.IPv6Unspecified()
	}
	if dst := m.get(unix.RTA_DST); dst != nil {
		var ok bool
		if ip, ok = netip.AddrFromSlice(dst); !ok {
			return netip.Prefix{}, fmt.Errorf("a destination of %d bytes", len(dst))
		}
	}
	if bits > ip.BitLen() {
		return netip.Prefix{}, fmt.Errorf("a destination %s of %d bits", ip, bits)
	}
	return netip.PrefixFrom(ip, bits), nil
}

// eachHop calls do with each struct rtnexthop of a multipath route (len, flags,
// hops, ifindex, attributes).
func eachHop(hops []byte, do func(hop []byte)) error {
	for len(hops) > 0 {
		if len(hops) < unix.SizeofRtNexthop {
			return fmt.Errorf("a nexthop of %d bytes", len(hops))
		}
		n := int(binary.NativeEndian.Uint16(hops[0:2]))
		if n < unix.SizeofRtNexthop || n > len(hops) {
			return fmt.Errorf("a nexthop that says it has %d of %d bytes", n, len(hops))
		}
		do(hops[:n])
		hops = hops[min(len(hops), (n+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1)):]
	}
	return nil
}

func routeText(m message, r Route) string {
	text := r.Destination.String()
	if r.Gateway.IsValid() {
		text += " via " + r.Gateway.String()
	}
	if len(r.Links) > 1 {
		text += fmt.Sprintf(" by %d paths", len(r.Links))
	}
	if r.Source.IsValid() {
		text += " src " + r.Source.String()
	}
	text += fmt.Sprintf(" table %d proto %d", r.Table, m.header[5])
	if metric, ok := m.number(unix.RTA_PRIORITY); ok {
		text += fmt.Sprintf(" metric %d", metric)
	}
	return text
}

// RestoreRoutes adds saved routes, all at once, and repeats those that failed as long
// as more succeed: the gateway of one may be reached by another. Their link must be
// up. It is no error when a route is there already.
func (c *Conn) RestoreRoutes(index int, routes []Saved) error {
	return errors.Join(c.TryRoutes(index, routes)...)
}

// TryRoutes is RestoreRoutes with an error for each route, nil for one that was added.
func (c *Conn) TryRoutes(index int, routes []Saved) []error {
	errs := make([]error, len(routes))
	var left []int // the positions of requests among the routes
	var requests []*nl.NetlinkRequest
	failed := func(i int, err error) {
		errs[i] = fmt.Errorf("restore route %s on link %d: %w", routes[i].Text, index, err)
	}
	for i, s := range routes {
		r, err := c.restoreRequest(index, s)
		if err != nil {
			failed(i, err)
			continue
		}
		left, requests = append(left, i), append(requests, r)
	}
	for {
		again := 0
		for k, err := range c.changeAll(requests) {
			i := left[k]
			errs[i] = nil
			if err == nil || errors.Is(err, unix.EEXIST) {
				continue
			}
			failed(i, err)
			left[again], requests[again] = i, requests[k]
			again++
		}
		if again == 0 || again == len(requests) {
			return errs
		}
		left, requests = left[:again], requests[:again]
	}
}

// withIndex is a saved route's body with the ifindex of its link.
func withIndex(s Saved, index int) (body []byte, err error) {
	m, err := parseMessage(s.Message, unix.SizeofRtMsg)
	if err != nil {
		return nil, err
	}
	swapIndex(m.get(unix.RTA_OIF), 0, index)
	err = eachHop(m.get(unix.RTA_MULTIPATH), func(hop []byte) { swapIndex(hop[4:8], 0, index) })
	return m.without(), err
}

// restoreRequest is the request that puts a saved route back.
func (c *Conn) restoreRequest(index int, s Saved) (*nl.NetlinkRequest, error) {
	body, err := withIndex(s, index)
	if err != nil {
		return nil, err
	}
	m, err := parseMessage(body, unix.SizeofRtMsg)
	if err != nil {
		return nil, err
	}
	// IPv4 may hold several routes that differ in the nexthop only. Appended
	// IPv6 routes would become paths of one route instead.
	flags := unix.NLM_F_CREATE | unix.NLM_F_APPEND
	if m.header[0] == unix.AF_INET6 {
		flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	}
	if m.get(unix.RTA_MULTIPATH) != nil {
		// What the kernel has left of it leads through the other links only.
		flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	}
	return c.request(unix.RTM_NEWROUTE, flags, raw(body)), nil
}

// Redirect returns a saved route with other ifindexes in place of some of its
// own.
func Redirect(s Saved, to map[int]int) (Saved, error) {
	m, err := parseMessage(s.Message, unix.SizeofRtMsg)
	if err != nil {
		return Saved{}, fmt.Errorf("redirect route %s: %w", s.Text, err)
	}
	redirect := func(field []byte) {
		if len(field) != 4 {
			return
		}
		if index, ok := to[int(binary.NativeEndian.Uint32(field))]; ok {
			binary.NativeEndian.PutUint32(field, uint32(index))
		}
	}
	redirect(m.get(unix.RTA_OIF))
	if err := eachHop(m.get(unix.RTA_MULTIPATH), func(hop []byte) { redirect(hop[4:8]) }); err != nil {
		return Saved{}, fmt.Errorf("redirect route %s: %w", s.Text, err)
	}
	return Saved{Text: s.Text, Message: m.without()}, nil
}

// InTable returns a saved route as one of another table.
func InTable(s Saved, table uint32) (Saved, error) {
	m, err := parseMessage(s.Message, unix.SizeofRtMsg)
	if err != nil {
		return Saved{}, fmt.Errorf("route %s in table %d: %w", s.Text, table, err)
	}
	in := m.get(unix.RTA_TABLE)
	if len(in) != 4 {
		return Saved{}, fmt.Errorf("route %s in table %d: its message names no table", s.Text, table)
	}
	// Encoded as the kernel does, so that the kernel's own message of the route is
	// Equal.
	binary.NativeEndian.PutUint32(in, table)
	m.header[4] = unix.RT_TABLE_COMPAT
	if table <= math.MaxUint8 {
		m.header[4] = uint8(table)
	}
	r, _, err := parseRoute(m.without(), 0)
	return r.Saved, err
}

// place identifies an IPv6 route in a namespace.
type place struct {
	header              [4]byte
	destination         string
	table, metric       uint32
	hasTable, hasMetric bool
}

// WholeRoutes removes from a list those multipath IPv6 routes of which the same route
// with more paths is listed: they are what the kernel left when a link went away. (An
// IPv4 multipath route goes away with its first link.)
func WholeRoutes(list []Saved) []Saved {
	paths := make([]int, len(list))
	places := make([]place, len(list))
	whole := map[place]int{} // the position of the one with the most paths
	for i, s := range list {
		m, err := parseMessage(s.Message, unix.SizeofRtMsg)
		if err != nil || m.header[0] != unix.AF_INET6 {
			continue
		}
		at := place{header: [4]byte(m.header), destination: string(m.get(unix.RTA_DST))}
		at.table, at.hasTable = m.number(unix.RTA_TABLE)
		at.metric, at.hasMetric = m.number(unix.RTA_PRIORITY)
		places[i] = at
		_ = eachHop(m.get(unix.RTA_MULTIPATH), func([]byte) { paths[i]++ })
		if most, known := whole[at]; paths[i] > 0 && (!known || paths[i] > paths[most]) {
			whole[at] = i
		}
	}
	var kept []Saved
	for i, s := range list {
		if most, known := whole[places[i]]; !known || s.Equal(list[most]) {
			kept = append(kept, s)
		}
	}
	return kept
}

// SharedRoutes lists the routes through nexthop objects. Other routes are not parsed.
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

// inPlaceOf is nil when the existing route that the kernel refuses another one for is
// the same. It lists the routes through the link only.
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
