// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// dumps are the host's links, addresses and routes at one time. Each dump is made once,
// for however many NICs.
type dumps struct {
	links     []rtnl.Link
	addresses []rtnl.Address
	routes    []rtnl.Route
	// known are the routes by what makes two the same; nil until somebody asks.
	known messages
}

func dump(conn *rtnl.Conn) (*dumps, error) {
	links, err := conn.Links()
	if err != nil {
		return nil, err
	}
	return dumpBeside(conn, links)
}

// dumpBeside is dump where the links are known.
func dumpBeside(conn *rtnl.Conn, links []rtnl.Link) (*dumps, error) {
	v := dumps{links: links}
	var err error
	if v.addresses, err = conn.Addresses(); err != nil {
		return nil, err
	}
	// 0 is no link: the routes keep the indexes that they have.
	v.routes, err = conn.Routes(0)
	return &v, err
}

// messages are saved objects by what makes two the same.
type messages map[string]bool

func (m messages) add(s rtnl.Saved) { m[string(s.Message)] = true }

func (m messages) has(s rtnl.Saved) bool { return m[string(s.Message)] }

// without are those of some routes that are not on the host.
func (v *dumps) without(routes []rtnl.Saved) []rtnl.Saved {
	if v.known == nil {
		v.known = make(messages, len(v.routes))
		for _, r := range v.routes {
			v.known.add(r.Saved)
		}
	}
	return slices.DeleteFunc(routes, v.known.has)
}

// readAddresses adds the link's addresses.
func (s *Seen) readAddresses(v *dumps) {
	for _, a := range v.addresses {
		if a.Index != s.State.Index || a.Kernel {
			continue
		}
		s.State.Addresses = append(s.State.Addresses, a.Saved)
		s.State.Prefixes = append(s.State.Prefixes, a.Prefix)
		if a.Global {
			s.Addresses = append(s.Addresses, a.Prefix)
		}
	}
}

// readRoutes adds the routes that go away with the link.
func (s *Seen) readRoutes(v *dumps) error {
	own := s.State.Index
	owners := make(map[netip.Addr]int, len(v.addresses))
	for _, a := range slices.Backward(v.addresses) { // the first of several counts
		owners[a.Prefix.Addr()] = a.Index
	}
	for _, r := range v.routes {
		// A route needs its links, and the link that owns its source address.
		needs := slices.Clone(r.Links)
		if owner, known := owners[r.Source]; known {
			needs = append(needs, owner)
		}
		if r.Kernel || !slices.Contains(needs, own) {
			continue
		}
		if r.Shared {
			return fmt.Errorf("route %s of interface %s uses a nexthop object, which could not be restored: "+
				"write it with via and dev", r.Text, s.State.Name)
		}
		var err error
		if r.Saved, err = rtnl.Redirect(r.Saved, map[int]int{own: 0}); err != nil {
			return err
		}
		route := Route{Saved: r.Saved}
		for _, index := range needs {
			if index != own {
				route.Others = append(route.Others, Other{Index: index, Name: linkName(v.links, index)})
			}
		}
		s.State.Routes = append(s.State.Routes, route)
		if len(route.Others) == 0 {
			s.Routes = append(s.Routes, r)
		}
	}
	return nil
}

// readRules adds the rules that name the link, and finds those that lead to its
// routes.
func (s *Seen) readRules(rules []rtnl.Rule) {
	for _, r := range rules {
		if r.Input == s.State.Name || r.Output == s.State.Name {
			s.State.Rules = append(s.State.Rules, r.Saved)
			continue
		}
		leads := slices.ContainsFunc(s.Routes, func(route rtnl.Route) bool { return route.Table == r.Table })
		if leads && !r.Kernel && r.Input == "" && r.Output == "" {
			s.Rules = append(s.Rules, r)
		}
	}
	slices.SortStableFunc(s.Rules, func(a, b rtnl.Rule) int { return cmp.Compare(a.Priority, b.Priority) })
}

func linkName(links []rtnl.Link, index int) string {
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Index == index })
	if i < 0 {
		return fmt.Sprintf("link %d", index)
	}
	return links[i].Name
}
