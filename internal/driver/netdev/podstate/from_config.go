// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// From is the interface that a configuration asks for, given the host's: name,
// addresses, routes, rules and neighbours are the host's unless the
// configuration says otherwise. vrf is the one that the configuration names,
// with its table; written are the places of the routes that configurations of
// the pod's interfaces write, outside of VRFs.
func From(c *v1alpha1.NetworkConfig, host *hoststate.Seen, vrf *VRF, written map[Place]bool) (*State, error) {
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

func (s *State) setAddresses(i *v1alpha1.InterfaceConfig, host *hoststate.Seen) error {
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
