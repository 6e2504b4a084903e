// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// restoreEntries puts back the addresses, routes, neighbours and queueing
// disciplines that are missing.
func (h *Host) restoreEntries(v *view, index int, want *State) error {
	have := Seen{State: State{Index: index}}
	var errs []error
	// A link that is renamed gets new labels on all its IPv4 addresses but the
	// first (net/ipv4/devinet.c, inetdev_changename): such an address is in the
	// way of itself.
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
// as they are listed here: it puts a new one of IPv6 first (net/ipv6/addrconf.c,
// ipv6_link_dev_addr), and the first is the one it prefers.
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
func missingRoutes(v *view, index int, want *State) ([]rtnl.Saved, error) {
	wanted, err := present(want.Routes, index, v.links)
	return v.without(wanted), err
}

// present returns the routes whose links are all on the host, with the indexes
// those have now. What was left of a route does not count beside the whole.
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

// restoreDevice puts back what belongs to the device.
func (h *Host) restoreDevice(index int, want *State) error {
	if err := h.Ethtool.RestoreFeatures(want.Name, want.Features); err != nil {
		return err
	}
	h.Step()
	if err := h.Ethtool.SetPrivateFlags(want.Name, want.PrivateFlags); err != nil {
		return err
	}
	h.Step()
	if err := h.Ethtool.RestoreSettings(want.Name, want.Ethtool); err != nil {
		return err
	}
	h.Step()
	return h.restorePrograms(index, want)
}

// restorePrograms puts back the programs that were held. One that was not, and
// that is gone, was taken off by its owner before it came to that: he has no use
// for it, and neither is it missed.
func (h *Host) restorePrograms(index int, want *State) error {
	if want.Key == "" {
		want.Programs = nil
		return nil
	}
	// An interrupted staging may have taken them off without saying where it
	// keeps them.
	programs, err := h.Programs.Hold(want.Key, want.Programs)
	if errors.Is(err, fs.ErrNotExist) {
		programs, err = nil, nil
	}
	if err != nil {
		return err
	}
	want.Programs = programs
	if err := h.Programs.Restore(h.Fd(), h.Conn, index, programs); err != nil {
		return err
	}
	h.Step()
	return h.Programs.Release(want.Key)
}

// verify reads a NIC again and names what is not as it was.
func (h *Host) verify(v *view, nic Return, now time.Time) error {
	link, err := nic.ID.Find(v.links)
	if err == nil && link == nil {
		err = errors.New("it is not on the host any more")
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	seen := &Seen{State: State{Name: link.Name, Index: link.Index, AltNames: link.AltNames, Up: link.Up, Settings: link.Settings}}
	if link.Master != nil {
		name := linkName(v.links, *link.Master)
		seen.State.VRF = &name
	}
	seen.readAddresses(v)
	c := comparison{want: nic.Want, have: &seen.State, links: v.links, now: now}
	var errs []error
	c.missing, err = missingRoutes(v, link.Index, nic.Want)
	errs = append(errs, err)
	seen.State.Neighbourhood, err = h.neighbourhood(link.Index, &nic.Want.Neighbourhood)
	errs = append(errs, err)
	if len(nic.Want.Rules) > 0 {
		rules, err := h.Rules()
		errs = append(errs, err)
		seen.readRules(rules)
	}
	if nic.Want.Root != nil || nic.Want.Ingress != nil {
		errs = append(errs, h.readQueueing(seen))
	}
	if nic.Device {
		errs = append(errs, h.readDevice(seen))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return c.verify()
}
