// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"net/netip"
	"slices"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// restoreEntries puts back the addresses, routes, neighbours and queueing
// disciplines that are missing.
func (h *Host) restoreEntries(v *dumps, index int, want *State) error {
	have := HostNIC{State: State{Index: index}}
	var errs []error
	// A link that is renamed gets new labels on all its IPv4 addresses but the
	// first (net/ipv4/devinet.c, inetdev_changename). An address with such a label is
	// deleted, or adding it with its own label would fail.
	for _, a := range v.addresses {
		wanted := slices.Contains(want.Prefixes, a.Prefix)
		if a.Index == index && wanted && !slices.ContainsFunc(want.Addresses, a.Equal) {
			errs = append(errs, h.DeleteAddress(index, a.Saved))
		}
	}
	have.readAddresses(v)
	for _, i := range AddOrder(want.Prefixes[:min(len(want.Prefixes), len(want.Addresses))]) {
		if a := want.Addresses[i]; !slices.ContainsFunc(have.State.Addresses, a.Equal) {
			errs = append(errs, h.RestoreAddress(index, a))
		}
	}
	errs = append(errs, h.restoreNeighbourhood(index, want))
	if want.Root != nil || want.Ingress != nil {
		errs = append(errs, h.RestoreQueueing(index, want.Root, want.Ingress))
	}
	missing, err := missingRoutes(v, index, want)
	return errors.Join(append(errs, err, h.RestoreRoutes(index, missing))...)
}

// AddOrder is the order in which to add addresses so that the kernel lists them
// as they are listed here: it puts a new IPv6 address first (net/ipv6/addrconf.c,
// ipv6_link_dev_addr), and prefers the first as a source.
func AddOrder(list []netip.Prefix) []int {
	var four, six []int
	for i, p := range list {
		if p.Addr().Is4() {
			four = append(four, i)
		} else {
			six = append(six, i)
		}
	}
	slices.Reverse(six)
	return append(four, six...)
}

// missingRoutes are the routes to restore. One through a NIC that another claim
// still holds is left to that claim, whose record has it too.
func missingRoutes(v *dumps, index int, want *State) ([]rtnl.Saved, error) {
	wanted, err := present(want.Routes, index, v.links)
	return v.without(wanted), err
}

// present returns the routes whose links are all on the host, with their present
// ifindexes. Of a multipath route that is saved whole and in part, the whole one
// counts (rtnl.WholeRoutes).
func present(routes []Route, own int, links []rtnl.Link) ([]rtnl.Saved, error) {
	indexes := make(map[string]int, len(links))
	for _, l := range links {
		indexes[l.Name] = l.Index
	}
	var list []rtnl.Saved
next:
	for _, r := range routes {
		now := map[int]int{0: own}
		for _, o := range r.Others {
			index, here := indexes[o.Name]
			if !here {
				continue next
			}
			now[o.Index] = index
		}
		saved, err := rtnl.Redirect(r.Saved, now)
		if err != nil {
			return nil, err
		}
		list = append(list, saved)
	}
	return rtnl.WholeRoutes(list), nil
}

// Inherit adds the routes that lead through this NIC and one that another claim
// took before: the kernel dropped them then, so that they cannot be read any
// more, and whichever claim ends last must restore them.
func (s *State) Inherit(other *State) error {
	var through []Route
	for _, route := range other.Routes {
		i := slices.IndexFunc(route.Others, func(o OtherLink) bool { return o.Name == s.Name })
		if i < 0 {
			continue
		}
		// The same route, seen from this NIC: its own index is 0, and the other
		// NIC is one of the others.
		seen := Route{Others: slices.Clone(route.Others)}
		seen.Others[i] = OtherLink{Index: other.Index, Name: other.Name}
		var err error
		seen.Saved, err = rtnl.Redirect(route.Saved, map[int]int{0: other.Index, route.Others[i].Index: 0})
		if err != nil {
			return err
		}
		through = append(through, seen)
	}
	s.addRoutes(through)
	return nil
}
