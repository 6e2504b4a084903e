// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// Plan is what DeviceRecord.Plan holds: one NIC, as it was and as it shall be.
type Plan struct {
	// NIC is the device as the inventory knew it when it was taken.
	NIC model.NIC `json:"nic"`
	// Host and Pod are nil where nothing moves: for an RDMA device without an
	// interface, and under admin access.
	Host *HostState `json:"host,omitempty"`
	Pod  *PodState  `json:"pod,omitempty"`
}

// HostState is the interface on the host before it moved: what undoing
// restores.
type HostState struct {
	Name string `json:"name"`
	// Index is a hint for people; it changes when the link moves.
	Index        int     `json:"index"`
	PermanentMAC *string `json:"permanentMAC,omitempty"`
	Kind         *string `json:"kind,omitempty"`
	// AltNames are its other names on the host, sorted.
	AltNames []string `json:"altNames,omitempty"`
	// Up is the administrator's setting.
	Up       bool          `json:"up"`
	Settings rtnl.Settings `json:"settings"`
	// Addresses, Routes and Neighbours are those that the kernel does not make
	// by itself. Routes include multipath routes that other links share in.
	Addresses  []rtnl.Saved `json:"addresses,omitempty"`
	Routes     []Route      `json:"routes,omitempty"`
	Neighbours []rtnl.Saved `json:"neighbours,omitempty"`
	// Prefixes are those of Addresses.
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`

	// global are the addresses of global scope and routes the routes through
	// this link alone: what the pod gets unless its configuration says
	// otherwise. They are only of use while planning.
	global []netip.Prefix
	routes []rtnl.Saved
}

// Route is a route that goes away with the link.
type Route struct {
	rtnl.Saved
	// Others are the other links it needs, by the ifindexes in its message: the
	// route cannot exist while one of them is away.
	Others []Other `json:"others,omitempty"`
}

// Other is another link of a route, or the owner of its source address.
type Other struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
}

// PodState is the interface as the pod shall see it.
type PodState struct {
	Name string `json:"name"`
	// Settings are those that the configuration changes.
	Settings  rtnl.Settings  `json:"settings,omitzero"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Routes and Neighbours are the host's, where its addresses are.
	Routes     []rtnl.Saved `json:"routes,omitempty"`
	Neighbours []rtnl.Saved `json:"neighbours,omitempty"`
}

// ReadPlan is the plan of one device of a record.
func ReadPlan(d driver.DeviceRecord) (Plan, error) {
	var p Plan
	if err := json.Unmarshal(d.Plan, &p); err != nil {
		return Plan{}, fmt.Errorf("device %s: read its plan: %w", d.Device, err)
	}
	return p, nil
}

// HeldNICs are the NICs that a record holds, as they were when they were taken.
func HeldNICs(r driver.Record) ([]model.NIC, error) {
	var held []model.NIC
	for _, d := range r.Devices {
		if d.AdminAccess {
			continue
		}
		p, err := ReadPlan(d)
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", r.Claim, err)
		}
		held = append(held, p.NIC)
	}
	return held, nil
}

// readState reads what must come back. It refuses what would not.
func (d *Driver) readState(nic model.NIC) (*HostState, error) {
	links, err := d.host.conn.Links()
	if err != nil {
		return nil, err
	}
	l, err := find(links, identityOf(nic))
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("interface %s is not in the host's network namespace", nic.Interface.Name)
	}
	if l.Master != nil {
		return nil, fmt.Errorf("interface %s is a port of %s, which would lose it", l.Name, linkName(links, *l.Master))
	}
	s := &HostState{
		Name: l.Name, Index: l.Index, PermanentMAC: l.PermanentMAC, Kind: l.Kind, AltNames: l.AltNames,
		Up: l.Up, Settings: l.Settings,
	}
	addresses, err := s.readAddresses(d.host.conn)
	if err != nil {
		return nil, err
	}
	return s, s.readRoutes(d.host.conn, links, addresses)
}

// stateToTake is readState of a NIC that is about to leave the host. It refuses
// one that the node needs by now: the inventory has looked earlier.
func (d *Driver) stateToTake(nic model.NIC) (*HostState, error) {
	s, err := d.readState(nic)
	if err != nil {
		return nil, err
	}
	links, err := d.host.conn.Links()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if l.Lower != nil && *l.Lower == s.Index {
			kind := "link"
			if l.Kind != nil {
				kind = *l.Kind
			}
			return nil, fmt.Errorf("interface %s carries %s %s, which would lose it: remove that first", s.Name, kind, l.Name)
		}
	}
	routes, err := d.host.conn.Routes(s.Index)
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		inUse := r.Table == unix.RT_TABLE_MAIN || r.Table == unix.RT_TABLE_DEFAULT
		if inUse && r.Unicast && r.Destination.Bits() == 0 && r.Through(s.Index) {
			return nil, fmt.Errorf("interface %s carries the default route (%s): it is the node's", s.Name, r.Text)
		}
	}
	return s, nil
}

func linkName(links []rtnl.Link, index int) string {
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Index == index })
	if i < 0 {
		return fmt.Sprintf("link %d", index)
	}
	return links[i].Name
}

// readAddresses returns the addresses of all links.
func (s *HostState) readAddresses(conn *rtnl.Conn) ([]rtnl.Address, error) {
	addresses, err := conn.Addresses()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if a.Index != s.Index || a.Kernel {
			continue
		}
		s.Addresses = append(s.Addresses, a.Saved)
		s.Prefixes = append(s.Prefixes, a.Prefix)
		if a.Global {
			s.global = append(s.global, a.Prefix)
		}
	}
	s.Neighbours, err = conn.Neighbours(s.Index)
	return addresses, err
}

func (s *HostState) readRoutes(conn *rtnl.Conn, links []rtnl.Link, addresses []rtnl.Address) error {
	routes, err := conn.Routes(s.Index)
	if err != nil {
		return err
	}
	for _, r := range routes {
		// A route needs its links, and the link that owns its source address.
		needs := slices.Clone(r.Links)
		owner := slices.IndexFunc(addresses, func(a rtnl.Address) bool { return a.Prefix.Addr() == r.Source })
		if owner >= 0 {
			needs = append(needs, addresses[owner].Index)
		}
		if r.Kernel || !slices.Contains(needs, s.Index) {
			continue
		}
		if r.Shared {
			return fmt.Errorf("route %s of interface %s uses a nexthop object, which could not be restored: "+
				"write it with via and dev", r.Text, s.Name)
		}
		route := Route{Saved: r.Saved}
		for _, index := range needs {
			if index != s.Index {
				route.Others = append(route.Others, Other{Index: index, Name: linkName(links, index)})
			}
		}
		s.Routes = append(s.Routes, route)
		if len(route.Others) == 0 {
			s.routes = append(s.routes, r.Saved)
		}
	}
	return nil
}

// present returns the routes whose links are all on the host, with the indexes
// those have now. What was left of a route does not count beside the whole.
func present(routes []Route, links []rtnl.Link) ([]rtnl.Saved, error) {
	var list []rtnl.Saved
next:
	for _, r := range routes {
		now := map[int]int{}
		for _, o := range r.Others {
			i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Name == o.Name })
			if i < 0 {
				continue next
			}
			now[o.Index] = links[i].Index
		}
		saved, err := rtnl.Redirect(r.Saved, now)
		if err != nil {
			return nil, err
		}
		list = append(list, saved)
	}
	return slices.DeleteFunc(slices.Clone(list), func(rest rtnl.Saved) bool {
		return slices.ContainsFunc(list, func(whole rtnl.Saved) bool { return rtnl.Supersedes(whole, rest) })
	}), nil
}
