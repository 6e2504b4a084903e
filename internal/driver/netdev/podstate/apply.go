// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/dhcp"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

// Pod is the pod's network namespace.
type Pod struct {
	*nslink.NetNSConn
	Sysctl sysctl.Net
}

// PrepareNamespace sets the sysctls of the pod's namespace. It comes before the
// interface moves in, which then gets its own from conf.default, and so only once: a
// pod may change them later. Undo leaves them: they end with the namespace, and in one
// that outlives the claim another claim may have set the same.
func (s *State) PrepareNamespace(p *Pod) error {
	for _, name := range slices.Sorted(maps.Keys(s.PodSysctls)) {
		if err := p.Sysctl.WriteNamespace(name, s.PodSysctls[name]); err != nil {
			return fmt.Errorf("sysctls[%s]: %w", name, err)
		}
	}
	return nil
}

// Configure configures an interface that was moved into the pod, and sets it up last:
// one that is up is configured. Repeating it changes nothing.
func (s *State) Configure(p *Pod, link *rtnl.Link, lease *dhcp.Lease) error {
	// A kernel that does not know a setting ignores it silently.
	if ignored := s.Settings.Beyond(link.Settings); ignored != (rtnl.Settings{}) {
		return fmt.Errorf("interface %s: the kernel did not set %s", link.Name, ignored)
	}
	if err := s.writeSysctls(p, link.Name); err != nil {
		return fmt.Errorf("interface %s: %w", link.Name, err)
	}
	// Before the addresses: enslaving drops those of IPv6.
	if err := s.enslave(p, link); err != nil {
		return fmt.Errorf("interface.vrf: %w", err)
	}
	for _, i := range hoststate.AddOrder(s.Addresses) {
		if err := p.AddAddress(link.Index, s.Addresses[i]); err != nil {
			return fmt.Errorf("interface %s: %w", link.Name, err)
		}
	}
	if err := setLease(p.Conn, link.Index, lease); err != nil {
		return fmt.Errorf("interface %s: %w", link.Name, err)
	}
	up := true
	if err := p.Set(link.Index, rtnl.Change{Up: &up}); err != nil {
		return fmt.Errorf("interface %s up: %w", link.Name, err)
	}
	return nil
}

func (s *State) writeSysctls(p *Pod, name string) error {
	for _, key := range slices.Sorted(maps.Keys(s.Sysctls)) {
		if err := p.Sysctl.Write(name, key, s.Sysctls[key]); err != nil {
			return err
		}
	}
	if s.Forwarding == nil {
		return nil
	}
	return setForwarding(p.Sysctl, name, *s.Forwarding)
}

// enslave puts the interface into its VRF, which is made when the first
// interface comes.
func (s *State) enslave(p *Pod, link *rtnl.Link) error {
	if s.VRF == nil {
		return nil
	}
	index, err := p.CreateVRF(s.VRF.Name, s.VRF.Table)
	if err != nil {
		return err
	}
	up := true
	if err := p.Set(index, rtnl.Change{Up: &up}); err != nil {
		return err
	}
	if link.Master != nil && *link.Master == index {
		return nil
	}
	return p.SetMaster(link.Index, &index)
}

// Finish adds what needs the interface up: routes, rules and neighbours. have
// are the interface's addresses: a pod that deleted some manages its routes itself,
// and gets none. Nor does one whose lease has expired, until ChangeLease. leftOut are
// the host's entries that the kernel refuses beside addresses that are not the host's.
func (s *State) Finish(p *Pod, index int, have []netip.Prefix, lease *dhcp.Lease) (leftOut []string, err error) {
	for _, a := range s.expected(lease) {
		if !slices.Contains(have, a) {
			return nil, nil
		}
	}
	f := fitter{strict: !s.OtherAddresses}
	if err := s.addNeighbours(p, index, &f); err != nil {
		return nil, err
	}
	var errs []error
	for i, err := range p.TryRoutes(index, s.Routes) {
		errs = append(errs, f.fit("route", s.Routes[i], err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, r := range append(s.leaseRoutes(lease), s.Own.Routes...) {
		if err := p.AddRoute(index, r); err != nil {
			return nil, fmt.Errorf("routes: %s: %w", r, err)
		}
	}
	if err := s.addRules(p, &f); err != nil {
		return nil, err
	}
	return f.leftOut, nil
}

func (s *State) addNeighbours(p *Pod, index int, f *fitter) error {
	for _, n := range s.Neighbours {
		if err := f.fit("neighbour", n, p.RestoreNeighbour(index, n)); err != nil {
			return err
		}
	}
	for i, n := range s.Own.Neighbours {
		mac, err := net.ParseMAC(n.MAC)
		if err == nil {
			err = p.SetNeighbour(index, n.IP, mac)
		}
		if err != nil {
			return fmt.Errorf("neighbors[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *State) expected(lease *dhcp.Lease) []netip.Prefix {
	list := s.Addresses
	if lease != nil {
		list = append(slices.Clone(list), lease.Address)
	}
	return list
}

func (s *State) addRules(p *Pod, f *fitter) error {
	var errs []error
	for _, r := range s.Rules {
		errs = append(errs, f.fit("rule", r, p.RestoreRule(r)))
	}
	for _, r := range s.Own.Rules {
		if err := p.AddRule(r); err != nil {
			errs = append(errs, fmt.Errorf("rules: %w", err))
		}
	}
	return errors.Join(errs...)
}

// unfit are the errors with which the kernel refuses an entry that does not go with the
// interface's addresses, or is of a family that the interface lacks.
var unfit = []syscall.Errno{
	syscall.EINVAL,       // a source address that is not the namespace's; a gateway that is; no IPv6 on the interface
	syscall.ENETUNREACH,  // a gateway of IPv4 that no route leads to
	syscall.EHOSTUNREACH, // one of IPv6
	syscall.ENODEV,       // IPv6 below its least MTU (net/ipv6/route.c, fib6_nh_init)
	syscall.EACCES,       // IPv6 switched off
}

// fitter collects the host's entries that the kernel refuses in the pod.
type fitter struct {
	// strict makes each refusal an error: with the host's addresses all entries fit.
	strict bool
	// leftOut are the unfit ones, and why.
	leftOut []string
}

// fit returns the error of adding an entry of the host, unless the entry is left out
// because of it.
func (f *fitter) fit(kind string, s rtnl.Saved, err error) error {
	var errno syscall.Errno
	if f.strict || !errors.As(err, &errno) || !slices.Contains(unfit, errno) {
		return err
	}
	f.leftOut = append(f.leftOut, fmt.Sprintf("%s %s: %s", kind, s.Text, errno))
	return nil
}

// setForwarding lets packets that come in by the interface go out by another,
// or not. IPv4 decides by the interface (net/ipv4/route.c, ip_route_input_slow).
// IPv6 decides by the whole namespace until Linux 6.17, which has
// force_forwarding (net/ipv6/ip6_output.c, ip6_forward); the interface's own
// forwarding says there whether it behaves as a router's.
func setForwarding(net sysctl.Net, name string, on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	if err := net.Write(name, "ipv4/conf/forwarding", value); err != nil {
		return err
	}
	err := net.Write(name, "ipv6/conf/forwarding", value)
	if errors.Is(err, sysctl.ErrLacks) {
		return nil // no IPv6 here
	}
	if err != nil {
		return err
	}
	err = net.Write(name, "ipv6/conf/force_forwarding", value)
	if !errors.Is(err, sysctl.ErrLacks) {
		return err
	}
	if !on {
		return nil // another interface may need the namespace's own switch
	}
	return net.WriteAll("ipv6/conf/forwarding", value)
}

// LeaseValid tells whether a lease's address may be used. One without an expiry always
// may.
func LeaseValid(lease *dhcp.Lease, now time.Time) bool {
	return lease.Expiry.IsZero() || now.Before(lease.Expiry)
}

// setLease gives an interface the address of a lease, with what is left of its lifetime;
// with nil it does nothing.
func setLease(conn *rtnl.Conn, index int, lease *dhcp.Lease) error {
	if lease == nil {
		return nil
	}
	return conn.SetAddress(index, rtnl.AddressConfig{Prefix: lease.Address, Valid: lease.Expiry, Preferred: lease.Expiry})
}

// ChangeLease gives an interface in the pod the lifetime, or the address, of a renewed
// lease. Routes are added again: where the lease expired, the kernel removed the
// address, and its routes with it.
func (s *State) ChangeLease(p *Pod, index int, old, lease *dhcp.Lease, now time.Time) error {
	if old.Address == lease.Address && LeaseValid(old, now) {
		return setLease(p.Conn, index, lease)
	}
	// The old one first: the new one could be its secondary address, which the
	// kernel deletes with the primary one.
	if err := p.DropAddress(index, old.Address); err != nil {
		return err
	}
	if err := setLease(p.Conn, index, lease); err != nil {
		return err
	}
	_, err := s.Finish(p, index, s.expected(lease), lease) // Attach has reported what is left out
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
	// Those on the link first: they may lead to the others' gateways.
	slices.SortStableFunc(list, func(a, b rtnl.RouteConfig) int { return int(b.Scope) - int(a.Scope) })
	return list
}
