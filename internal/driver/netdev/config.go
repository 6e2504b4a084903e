// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// configOf merges and checks the layers of parameters of one device.
func configOf(layers []driver.Config) (*v1alpha1.NetworkConfig, error) {
	var decoded []*v1alpha1.NetworkConfig
	for _, l := range layers {
		c, err := v1alpha1.DecodeNetworkConfig(l.Raw)
		if err != nil {
			return nil, fmt.Errorf("parameters of the %s: %w", l.Source, err)
		}
		decoded = append(decoded, c)
	}
	merged := v1alpha1.MergeNetworkConfigs(decoded...)
	if err := merged.Validate(); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return merged, nil
}

// refuseUnapplied refuses every field that this driver would not apply: a pod
// must not run without what its claim says.
func refuseUnapplied(c *v1alpha1.NetworkConfig) error {
	i := c.Interface
	var errs []error
	for _, f := range []struct {
		path string
		set  bool
	}{
		{"profile", c.Profile != nil},
		{"interface.type", i.Type != nil && *i.Type != v1alpha1.TypePassthrough},
		{"interface.addressing", i.Addressing != nil && *i.Addressing == v1alpha1.AddressingDHCP},
		{"interface.dhcp", isTrue(i.DHCP)},
		{"interface.ipam", i.IPAM != nil},
		{"interface.hardwareAddr", i.HardwareAddr != nil},
		{"interface.disableEbpfPrograms", isTrue(i.DisableEBPFPrograms)},
		{"interface.forwarding", i.Forwarding != nil},
		{"interface.arpIgnore", i.ARPIgnore != nil},
		{"interface.arpAnnounce", i.ARPAnnounce != nil},
		{"interface.vrf", i.VRF != nil},
		{"routes", len(c.Routes) > 0},
		{"rules", len(c.Rules) > 0},
		{"neighbors", len(c.Neighbors) > 0},
		{"ethtool.features", c.Ethtool != nil && len(c.Ethtool.Features) > 0},
		{"ethtool.privateFlags", c.Ethtool != nil && len(c.Ethtool.PrivateFlags) > 0},
	} {
		if f.set {
			errs = append(errs, fmt.Errorf("%s: this build does not apply it yet: leave it out", f.path))
		}
	}
	return errors.Join(errs...)
}

func isTrue(b *bool) bool { return b != nil && *b }

// isEmpty tells whether a configuration asks for anything.
func isEmpty(c *v1alpha1.NetworkConfig) bool {
	return reflect.DeepEqual(c, &v1alpha1.NetworkConfig{})
}

// podState is the interface a configuration asks for, given the host's: name,
// addresses and routes move with it unless the configuration says otherwise.
func podState(c *v1alpha1.NetworkConfig, host *HostState) (*PodState, error) {
	i := c.Interface
	s := &PodState{Name: host.Name, Addresses: host.global, Routes: host.routes, Neighbours: host.Neighbours, Settings: rtnl.Settings{
		GSOMax:     toUint32(i.GSOMaxSize),
		GROMax:     toUint32(i.GROMaxSize),
		GSOIPv4Max: toUint32(i.GSOIPv4MaxSize),
		GROIPv4Max: toUint32(i.GROIPv4MaxSize),
	}}
	if i.Name != nil {
		s.Name = *i.Name
	} else if err := v1alpha1.CheckInterfaceName(host.Name); err != nil {
		return nil, fmt.Errorf("the host's %w: set interface.name", err)
	}
	if i.MTU != nil {
		mtu := int(*i.MTU)
		s.Settings.MTU = &mtu
	}
	if i.Addresses != nil || i.Addressing != nil && *i.Addressing == v1alpha1.AddressingUnnumbered {
		// The host's routes and neighbours mean nothing beside other addresses.
		s.Addresses, s.Routes, s.Neighbours = nil, nil, nil
	}
	for _, text := range i.Addresses {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("interface.addresses: %w", err)
		}
		s.Addresses = append(s.Addresses, p)
	}
	return s, errors.Join(
		missing("interface.gsoMaxSize", i.GSOMaxSize, host.Settings.GSOMax),
		missing("interface.groMaxSize", i.GROMaxSize, host.Settings.GROMax),
		missing("interface.gsoIPv4MaxSize", i.GSOIPv4MaxSize, host.Settings.GSOIPv4Max),
		missing("interface.groIPv4MaxSize", i.GROIPv4MaxSize, host.Settings.GROIPv4Max),
	)
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
