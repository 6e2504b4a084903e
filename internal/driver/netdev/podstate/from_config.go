// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// From is the interface that a configuration asks for, given the host's: name,
// addresses, routes, rules and neighbours are the host's unless the
// configuration says otherwise. vrf is the one that the configuration names,
// with its table; written are the places of the routes that configurations of
// the pod's interfaces write, outside of VRFs.
func From(c *v1alpha1.NetworkConfig, host *hoststate.HostNIC, vrf *VRF, written map[Place]bool) (*State, error) {
	i := c.Interface
	s := &State{Name: host.State.Name, VRF: vrf, Forwarding: i.Forwarding}
	if i.Name != nil {
		s.Name = *i.Name
	} else if err := v1alpha1.CheckInterfaceName(host.State.Name); err != nil {
		return nil, fmt.Errorf("the host's %w: set interface.name", err)
	}
	errs := []error{
		s.setSettings(&i, &host.State),
		s.setAddresses(&i, host),
		s.setOwn(c),
		s.setSysctls(c),
		s.takeOver(c, host, written),
	}
	if err := errors.Join(append(errs, s.checkMTU())...); err != nil {
		return nil, err
	}
	return s, nil
}

// DHCP tells whether a configuration asks for addresses by DHCP.
func DHCP(c *v1alpha1.NetworkConfig) bool {
	i := c.Interface
	return i.DHCP != nil && *i.DHCP || i.Addressing != nil && *i.Addressing == v1alpha1.AddressingDHCP
}

// keepsHost tells whether the pod gets the host's addresses.
func keepsHost(i *v1alpha1.InterfaceConfig) bool {
	dynamic := DHCP(&v1alpha1.NetworkConfig{Interface: *i})
	bare := i.Addressing != nil && *i.Addressing == v1alpha1.AddressingUnnumbered
	return i.Addresses == nil && !dynamic && !bare
}

func (s *State) setAddresses(i *v1alpha1.InterfaceConfig, host *hoststate.HostNIC) error {
	if keepsHost(i) {
		s.Addresses = host.Addresses
		return nil
	}
	s.OtherAddresses = true
	for _, text := range i.Addresses {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("interface.addresses: %w", err)
		}
		s.Addresses = append(s.Addresses, p)
	}
	return nil
}

func (s *State) setSettings(i *v1alpha1.InterfaceConfig, host *hoststate.State) error {
	s.Settings = rtnl.Settings{
		GSOMax:     toUint32(i.GSOMaxSize),
		GROMax:     toUint32(i.GROMaxSize),
		GSOIPv4Max: toUint32(i.GSOIPv4MaxSize),
		GROIPv4Max: toUint32(i.GROIPv4MaxSize),
	}
	if i.MTU != nil {
		mtu := int(*i.MTU)
		s.Settings.MTU = &mtu
	}
	var err error
	if i.HardwareAddr != nil {
		s.Settings.MAC, err = macFor(*i.HardwareAddr, host)
	}
	return errors.Join(err,
		missing("interface.gsoMaxSize", i.GSOMaxSize, host.Settings.GSOMax),
		missing("interface.groMaxSize", i.GROMaxSize, host.Settings.GROMax),
		missing("interface.gsoIPv4MaxSize", i.GSOIPv4MaxSize, host.Settings.GSOIPv4Max),
		missing("interface.groIPv4MaxSize", i.GROIPv4MaxSize, host.Settings.GROIPv4Max),
	)
}

// macFor is a MAC as the kernel writes it, if the interface can have it.
func macFor(text string, host *hoststate.State) (*string, error) {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return nil, fmt.Errorf("interface.hardwareAddr: %w", err)
	}
	if host.Settings.MAC == nil {
		return nil, fmt.Errorf("interface.hardwareAddr: %s: interface %s has none to change: leave it out", text, host.Name)
	}
	own, err := net.ParseMAC(*host.Settings.MAC)
	if err != nil || len(own) != len(mac) {
		return nil, fmt.Errorf("interface.hardwareAddr: %s: want one like the interface's own %s", text, *host.Settings.MAC)
	}
	if mac[0]&1 != 0 {
		return nil, fmt.Errorf("interface.hardwareAddr: %s: is a group address: want one whose first byte is even", text)
	}
	text = mac.String()
	return &text, nil
}

// checkMTU refuses an MTU at which the kernel takes IPv6 off the interface.
func (s *State) checkMTU() error {
	const least = 1280 // IPV6_MIN_MTU
	if s.Settings.MTU == nil || *s.Settings.MTU >= least {
		return nil
	}
	six := slices.IndexFunc(s.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() })
	if six < 0 {
		return nil
	}
	return fmt.Errorf("interface.mtu: %d: the interface has the IPv6 address %s, which needs at least %d", *s.Settings.MTU, s.Addresses[six], least)
}

// missing refuses a size that the kernel would silently ignore.
func missing(path string, wanted *int32, have *uint32) error {
	if wanted == nil || have != nil {
		return nil
	}
	return fmt.Errorf("%s: %d: this node's kernel has no such setting: leave it out, or use Linux 6.3 or newer", path, *wanted)
}

func toUint32(v *int32) *uint32 {
	if v == nil {
		return nil
	}
	u := uint32(*v)
	return &u
}

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
	// Routes on the link first: a gateway must be reachable when its route is added.
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

// takeOver adds the host's entries. With the host's addresses, a route or rule of the
// configuration replaces that of the host, and an empty list means none. With other
// addresses, a list of the configuration replaces all of the host's of that kind: the
// configuration describes the whole network then.
func (s *State) takeOver(c *v1alpha1.NetworkConfig, host *hoststate.HostNIC, written map[Place]bool) error {
	// With DHCP the routes are those of the lease.
	if !DHCP(c) && inheritsHost(s, c.Routes) {
		if err := s.takeOverRoutes(host.Routes, written); err != nil {
			return err
		}
	}
	if inheritsHost(s, c.Neighbors) {
		s.Neighbours = host.State.Neighbours
	}
	if s.VRF != nil || !inheritsHost(s, c.Rules) {
		return nil // the kernel's l3mdev rule leads to the VRF's table
	}
	for _, r := range host.Rules {
		s.Rules = append(s.Rules, r.Saved)
	}
	return nil
}

// inheritsHost tells whether the pod gets the host's entries of a kind, given the
// configuration's own.
func inheritsHost[T any](s *State, own []T) bool {
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

// writes tells whether a configuration has a route that replaces one of the host.
func (s *State) writes(r rtnl.Route, written map[Place]bool) bool {
	if s.VRF == nil {
		return written[PlaceOf(r.Destination, r.Table)]
	}
	return slices.ContainsFunc(s.Own.Routes, func(c rtnl.RouteConfig) bool { return c.Destination == r.Destination.Masked() })
}

// parser reads addresses and keeps the first error.
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

// setSysctls sorts the sysctls of a configuration into the interface's own and
// those of the whole namespace. One that another field sets too must agree with it.
func (s *State) setSysctls(c *v1alpha1.NetworkConfig) error {
	set := func(key string, v *int32) {
		if v != nil {
			s.setOwnSysctl(key, strconv.Itoa(int(*v)))
		}
	}
	set("ipv4/conf/arp_ignore", c.Interface.ARPIgnore)
	set("ipv4/conf/arp_announce", c.Interface.ARPAnnounce)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Sysctls)) {
		if err := s.addSysctl(name, c.Sysctls[name]); err != nil {
			errs = append(errs, fmt.Errorf("sysctls[%s]: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// forwardingOfAll is the other name of net.ipv4.ip_forward (net/ipv4/devinet.c,
// devinet_init_net): a pod has one of them.
const forwardingOfAll = "net.ipv4.conf.all.forwarding"

func (s *State) addSysctl(name, value string) error {
	ifname, key, ofInterface := v1alpha1.InterfaceOfSysctl(name)
	if !ofInterface || ifname == "all" || ifname == "default" {
		if name == "net.ipv4.ip_forward" {
			name = forwardingOfAll
		}
		if have, there := s.PodSysctls[name]; there && have != value {
			return fmt.Errorf("%q: %s is %q: want the same", value, name, have)
		}
		if s.PodSysctls == nil {
			s.PodSysctls = map[string]string{}
		}
		s.PodSysctls[name] = value
		return nil
	}
	if ifname != s.Name {
		return fmt.Errorf("is of interface %s: want the claim's own, %s, or all or default of conf", ifname, s.Name)
	}
	if have, there := s.Sysctls[key]; there && have != value {
		return fmt.Errorf("%q: another field of interface says %q: want one of them", value, have)
	}
	if s.Forwarding != nil && (key == "ipv4/conf/forwarding" || key == "ipv6/conf/forwarding") {
		return errors.New("interface.forwarding says it: want one of them")
	}
	s.setOwnSysctl(key, value)
	return nil
}

func (s *State) setOwnSysctl(key, value string) {
	if s.Sysctls == nil {
		s.Sysctls = map[string]string{}
	}
	s.Sysctls[key] = value
}
