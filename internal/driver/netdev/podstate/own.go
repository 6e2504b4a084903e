// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// setOwn adds the entries of the configuration, which has been validated.
func (s *State) setOwn(c *v1alpha1.NetworkConfig) error {
	var errs []error
	for i, r := range c.Routes {
		route, err := s.route(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("routes[%d].%w", i, err))
		}
		s.Own.Routes = append(s.Own.Routes, route)
	}
	// A gateway is reachable only when the route to it is there.
	slices.SortStableFunc(s.Own.Routes, func(a, b rtnl.RouteConfig) int { return -cmp.Compare(a.Scope, b.Scope) })
	for i, r := range c.Rules {
		rule, err := ruleOf(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("rules[%d].%w", i, err))
		}
		s.Own.Rules = append(s.Own.Rules, rule)
	}
	for i, n := range c.Neighbors {
		neighbour, err := neighbourOf(n)
		if err != nil {
			errs = append(errs, fmt.Errorf("neighbors[%d].%w", i, err))
		}
		s.Own.Neighbours = append(s.Own.Neighbours, neighbour)
	}
	return errors.Join(errs...)
}

// route is a route of the configuration. In a VRF all are in its table.
func (s *State) route(r v1alpha1.RouteConfig) (rtnl.RouteConfig, error) {
	var p parser
	out := rtnl.RouteConfig{
		Destination: p.prefix("destination", r.Destination).Masked(),
		Gateway:     p.addr("gateway", r.Gateway),
		Source:      p.addr("source", r.Source),
		Scope:       uint8(value(r.Scope)),
		Table:       uint32(value(r.Table)),
		Metric:      uint32(value(r.Metric)),
		MTU:         uint32(value(r.MTU)),
		OnLink:      value(r.OnLink),
	}
	if s.VRF != nil {
		out.Table = s.VRF.Table
	}
	return out, p.err
}

func ruleOf(r v1alpha1.RuleConfig) (rtnl.RuleConfig, error) {
	var p parser
	out := rtnl.RuleConfig{
		Priority:    toUint32(r.Priority),
		Table:       uint32(value(r.Table)),
		Source:      p.prefix("source", r.Source).Masked(),
		Destination: p.prefix("destination", r.Destination).Masked(),
	}
	if !out.Source.IsValid() && !out.Destination.IsValid() {
		out.Family = unix.AF_INET
	}
	return out, p.err
}

func neighbourOf(n v1alpha1.NeighborConfig) (Neighbour, error) {
	var p parser
	ip := n.IPAddress
	if ip == nil {
		ip = n.Destination
	}
	out := Neighbour{IP: p.addr("ipAddress", ip)}
	mac, err := net.ParseMAC(value(n.HardwareAddr))
	if err != nil {
		return out, fmt.Errorf("hardwareAddr: %w", err)
	}
	out.MAC = mac.String()
	return out, p.err
}

// takeOver adds the host's entries. Beside the host's addresses one of the
// configuration takes the place of the host's, and an empty list is none; beside
// others a list of the configuration is all there is of its kind: who wrote both
// has laid out the network himself.
func (s *State) takeOver(c *v1alpha1.NetworkConfig, host *hoststate.Seen, written map[Place]bool) error {
	// A DHCP server's routes are the ones that go with its address.
	if !DHCP(c) && comesAlong(s, c.Routes) {
		if err := s.takeOverRoutes(host.Routes, written); err != nil {
			return err
		}
	}
	if comesAlong(s, c.Neighbors) {
		s.Neighbours = host.State.Neighbours
	}
	if s.VRF != nil || !comesAlong(s, c.Rules) {
		return nil // a VRF brings its own
	}
	for _, r := range host.Rules {
		s.Rules = append(s.Rules, r.Saved)
	}
	return nil
}

// comesAlong tells whether the pod gets the host's entries of a kind, given those
// that the configuration has.
func comesAlong[T any](s *State, own []T) bool {
	return own == nil || len(own) > 0 && !s.OtherAddresses
}

func (s *State) takeOverRoutes(routes []rtnl.Route, written map[Place]bool) error {
	for _, r := range routes {
		if s.writes(r, written) {
			continue
		}
		saved := r.Saved
		if s.VRF != nil {
			var err error
			if saved, err = rtnl.InTable(saved, s.VRF.Table); err != nil {
				return err
			}
		}
		s.Routes = append(s.Routes, saved)
		if s.VRF == nil && r.Table != unix.RT_TABLE_MAIN && !slices.Contains(s.HostTables, r.Table) {
			s.HostTables = append(s.HostTables, r.Table)
		}
	}
	return nil
}

// writes tells whether a configuration has a route in place of one of the host.
func (s *State) writes(r rtnl.Route, written map[Place]bool) bool {
	if s.VRF == nil {
		return written[PlaceOf(r.Destination, r.Table)]
	}
	return slices.ContainsFunc(s.Own.Routes, func(c rtnl.RouteConfig) bool { return c.Destination == r.Destination.Masked() })
}

// parser reads addresses and keeps the first mistake.
type parser struct{ err error }

func (p *parser) prefix(name string, text *string) netip.Prefix {
	if text == nil {
		return netip.Prefix{}
	}
	v, err := netip.ParsePrefix(*text)
	p.keep(name, err)
	return v
}

func (p *parser) addr(name string, text *string) netip.Addr {
	if text == nil {
		return netip.Addr{}
	}
	v, err := netip.ParseAddr(*text)
	p.keep(name, err)
	return v
}

func (p *parser) keep(name string, err error) {
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("%s: %w", name, err)
	}
}

// value is zero for nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
