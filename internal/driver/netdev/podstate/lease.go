// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/dhcp"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// LeaseValid tells whether a lease's address may be used. One without an end is for
// ever.
func LeaseValid(lease *dhcp.Lease, now time.Time) bool {
	return lease.Expiry.IsZero() || now.Before(lease.Expiry)
}

// setLease gives an interface the address of a lease for what is left of its
// time; nil is none.
func setLease(conn *rtnl.Conn, index int, lease *dhcp.Lease) error {
	if lease == nil {
		return nil
	}
	return conn.SetAddress(index, rtnl.AddressConfig{Prefix: lease.Address, Valid: lease.Expiry, Preferred: lease.Expiry})
}

// ChangeLease gives an interface in the pod the time, or the address, of a
// renewed lease. The kernel took the address of one that ran out away, and its
// routes with it.
func (s *State) ChangeLease(p *Pod, index int, old, lease *dhcp.Lease, now time.Time) error {
	if old.Address == lease.Address && LeaseValid(old, now) {
		return setLease(p.Conn, index, lease)
	}
	// The old one first: the new one would be its secondary address, and go
	// with it.
	if err := p.DropAddress(index, old.Address); err != nil {
		return err
	}
	if err := setLease(p.Conn, index, lease); err != nil {
		return err
	}
	_, err := s.Finish(p, index, s.expected(lease), lease) // attaching has told what is left out
	return err
}

// leaseRoutes are the routes that a DHCP server gave, less those that the
// configuration has itself. A default route is only taken inside a VRF: the
// pod's own is that of the cluster's network.
func (s *State) leaseRoutes(lease *dhcp.Lease) []rtnl.RouteConfig {
	if lease == nil {
		return nil
	}
	var list []rtnl.RouteConfig
	for _, r := range lease.Routes {
		own := func(c rtnl.RouteConfig) bool { return c.Destination == r.Destination.Masked() }
		if r.Destination.Bits() == 0 && s.VRF == nil || slices.ContainsFunc(s.Own.Routes, own) {
			continue
		}
		route := rtnl.RouteConfig{Destination: r.Destination.Masked(), Gateway: r.Gateway}
		if !r.Gateway.IsValid() || r.Gateway.IsUnspecified() {
			route.Gateway, route.Scope = netip.Addr{}, unix.RT_SCOPE_LINK
		}
		if s.VRF != nil {
			route.Table = s.VRF.Table
		}
		list = append(list, route)
	}
	// Those on the link first: the others' gateways may be behind them.
	slices.SortStableFunc(list, func(a, b rtnl.RouteConfig) int { return int(b.Scope) - int(a.Scope) })
	return list
}
