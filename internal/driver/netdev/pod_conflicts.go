// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// podUse is what the interfaces of a claim's pods use of their network namespace:
// names, MACs, routes, VRFs, routing tables and sysctls.
type podUse struct {
	// names, macs and routes map what is used to who uses it, in words.
	names, macs, routes map[string]string
	sysctls             map[string]sysctlUse
	// vrfs are routing tables by the name of their VRF, tables all that are used.
	vrfs   map[string]uint32
	tables map[uint32]bool
	// written are the places of the routes of configurations, outside of VRFs.
	written map[podstate.Place]bool
}

// newPodUse is what every pod uses.
func newPodUse() *podUse {
	return &podUse{
		names:   map[string]string{"eth0": "from the cluster's network"},
		macs:    map[string]string{},
		routes:  map[string]string{},
		sysctls: map[string]sysctlUse{},
		vrfs:    map[string]uint32{},
		tables:  map[uint32]bool{},
		written: map[podstate.Place]bool{},
	}
}

// usedBy is what the claim's pods use by other claims.
func usedBy(claim driver.Claim, held []heldDevice) *podUse {
	u := newPodUse()
	for _, d := range held {
		shared := slices.ContainsFunc(d.pods, func(pod driver.PodRef) bool { return slices.Contains(claim.Pods, pod) })
		if shared && d.claim.UID != claim.UID && d.plan.Pod != nil {
			u.take(d.plan.Pod, "from claim "+d.claim.String())
		}
	}
	return u
}

// reserve keeps the tables that the claim's own configurations name from being
// chosen for a VRF of one of them, and the places of their routes from the
// host's.
func (u *podUse) reserve(c *v1alpha1.NetworkConfig, seen *hoststate.HostNIC) {
	if v := c.Interface.VRF; v != nil && v.Table != nil {
		u.tables[uint32(*v.Table)] = true
		if _, known := u.vrfs[*v.Name]; !known {
			u.vrfs[*v.Name] = uint32(*v.Table)
		}
	}
	for _, r := range c.Routes {
		var table uint32
		if r.Table != nil {
			table = uint32(*r.Table)
			u.tables[table] = true
		}
		if c.Interface.VRF != nil || r.Destination == nil {
			continue
		}
		if p, err := netip.ParsePrefix(*r.Destination); err == nil {
			u.written[podstate.PlaceOf(p, table)] = true
		}
	}
	for _, r := range c.Rules {
		if r.Table != nil {
			u.tables[uint32(*r.Table)] = true
		}
	}
	if seen != nil {
		for _, r := range seen.Routes {
			u.tables[r.Table] = true
		}
	}
}

// stateOf is the interface as the pod shall see it.
func (u *podUse) stateOf(c *v1alpha1.NetworkConfig, seen *hoststate.HostNIC) (*podstate.State, error) {
	vrf, err := u.vrf(c.Interface.VRF)
	if err != nil {
		return nil, err
	}
	return podstate.From(c, seen, vrf, u.written)
}

// firstTable is the first that a VRF gets whose table is left out. Those below
// are what people write by hand.
const firstTable = 1000

// vrf is the VRF of a configuration with its table, which no other VRF of the
// pod has.
func (u *podUse) vrf(c *v1alpha1.VRFConfig) (*podstate.VRF, error) {
	if c == nil {
		return nil, nil
	}
	table, known := u.vrfs[*c.Name]
	switch {
	case known && c.Table != nil && uint32(*c.Table) != table:
		return nil, fmt.Errorf("interface.vrf.table: %d: VRF %q of the pod has table %d already", *c.Table, *c.Name, table)
	case known:
	case c.Table != nil:
		table = uint32(*c.Table)
	default:
		for table = firstTable; u.tables[table]; table++ {
		}
	}
	for name, other := range u.vrfs {
		if other == table && name != *c.Name {
			return nil, fmt.Errorf("interface.vrf.table: %d: is that of VRF %q in the pod: choose another, or leave it out", table, name)
		}
	}
	u.vrfs[*c.Name], u.tables[table] = table, true
	return &podstate.VRF{Name: *c.Name, Table: table}, nil
}

// add reserves what an interface uses, or says what is used already. by is who uses
// it, in words.
func (u *podUse) add(s *podstate.State, by string) error {
	if by, used := u.names[s.Name]; used {
		return fmt.Errorf("interface.name: %q is in the pod already, %s: give each its own name", s.Name, by)
	}
	if s.VRF != nil {
		if by, used := u.names[s.VRF.Name]; used && by != vrfLink {
			return fmt.Errorf("interface.vrf.name: %q is in the pod already, %s: give it its own name", s.VRF.Name, by)
		}
	}
	if mac := s.Settings.MAC; mac != nil {
		if by, used := u.macs[*mac]; used {
			return fmt.Errorf("interface.hardwareAddr: %s is in the pod already, %s: give each its own", *mac, by)
		}
	}
	for _, r := range s.Own.Routes {
		// The kernel tells routes apart by these alone.
		if by, used := u.routes[routeKey(r)]; used {
			return fmt.Errorf("routes: %s is in the pod already, %s: give one of them a metric or a table of its own", routeKey(r), by)
		}
	}
	if err := u.checkSysctls(s); err != nil {
		return err
	}
	u.take(s, by)
	return nil
}

// sysctlUse is a sysctl that somebody sets.
type sysctlUse struct{ value, by string }

// checkSysctls refuses a sysctl that another interface sets to another value: the
// result would depend on their order.
func (u *podUse) checkSysctls(s *podstate.State) error {
	for _, name := range slices.Sorted(maps.Keys(s.PodSysctls)) {
		if other, used := u.sysctls[name]; used && other.value != s.PodSysctls[name] {
			return fmt.Errorf("sysctls[%s]: %q: the pod has %q already, %s: want one value of both", name, s.PodSysctls[name], other.value, other.by)
		}
	}
	return nil
}

// vrfLink is what uses the name of a VRF, in messages.
const vrfLink = "as a VRF"

func (u *podUse) take(s *podstate.State, by string) {
	u.names[s.Name] = by
	if s.Settings.MAC != nil {
		u.macs[*s.Settings.MAC] = by
	}
	if s.VRF != nil {
		u.names[s.VRF.Name] = vrfLink
		u.vrfs[s.VRF.Name] = s.VRF.Table
	}
	for _, r := range s.Own.Routes {
		u.routes[routeKey(r)] = by
		if s.VRF == nil {
			u.written[podstate.PlaceOf(r.Destination, r.Table)] = true
		}
	}
	for _, t := range s.Tables() {
		u.tables[t] = true
	}
	for name, value := range s.PodSysctls {
		u.sysctls[name] = sysctlUse{value, by}
	}
}

// routeKey is the same for two routes that the kernel takes for one.
func routeKey(r rtnl.RouteConfig) string {
	return rtnl.RouteConfig{Destination: r.Destination, Table: r.Table, Metric: r.Metric}.String()
}
