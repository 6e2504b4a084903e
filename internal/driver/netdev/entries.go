// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"slices"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// restoreEntries puts back the addresses, routes and neighbours that are
// missing on the host.
func (d *Driver) restoreEntries(index int, want *HostState) error {
	conn := d.host.conn
	if err := d.dropAltered(index, want); err != nil {
		return err
	}
	have := HostState{Index: index}
	if _, err := have.readAddresses(conn); err != nil {
		return err
	}
	var errs []error
	for _, a := range without(want.Addresses, have.Addresses) {
		errs = append(errs, conn.RestoreAddress(index, a))
	}
	for _, n := range without(want.Neighbours, have.Neighbours) {
		errs = append(errs, conn.RestoreNeighbour(index, n))
	}
	missing, err := d.missingRoutes(index, want)
	return errors.Join(append(errs, err, restoreRoutes(conn, index, missing))...)
}

// dropAltered takes away wanted addresses that are there in another form, which
// could not be added: a link that is renamed gets new labels on all its IPv4
// addresses but the first (net/ipv4/devinet.c, inetdev_changename).
func (d *Driver) dropAltered(index int, want *HostState) error {
	addresses, err := d.host.conn.Addresses()
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range addresses {
		wanted := slices.Contains(want.Prefixes, a.Prefix)
		if a.Index == index && wanted && !slices.ContainsFunc(want.Addresses, a.Equal) {
			errs = append(errs, d.host.conn.DeleteAddress(index, a.Saved))
		}
	}
	return errors.Join(errs...)
}

// missingRoutes are the routes to restore. One through a NIC that another claim
// still holds is left to that claim, whose record has it too.
func (d *Driver) missingRoutes(index int, want *HostState) ([]rtnl.Saved, error) {
	links, err := d.host.conn.Links()
	if err != nil {
		return nil, err
	}
	routes, err := d.host.conn.Routes(index)
	if err != nil {
		return nil, err
	}
	var existing []rtnl.Saved
	for _, r := range routes {
		existing = append(existing, r.Saved)
	}
	wanted, err := present(want.Routes, links)
	return without(wanted, existing), err
}

// restoreRoutes repeats while that helps: a gateway is reachable only when the
// route to it is there.
func restoreRoutes(conn *rtnl.Conn, index int, routes []rtnl.Saved) error {
	for {
		var failed []rtnl.Saved
		var errs []error
		for _, r := range routes {
			if err := conn.RestoreRoute(index, r); err != nil {
				failed = append(failed, r)
				errs = append(errs, err)
			}
		}
		if len(failed) == 0 || len(failed) == len(routes) {
			return errors.Join(errs...)
		}
		routes = failed
	}
}

// verify reads the host again and names what is not as it was.
func (d *Driver) verify(plan Plan) error {
	want := plan.Host
	have, err := d.readState(plan.NIC)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	missing, err := d.missingRoutes(have.Index, want)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	var errs []error
	if have.Name != want.Name {
		errs = append(errs, fmt.Errorf("verify: the interface is called %s, was %s", have.Name, want.Name))
	}
	if want.Up && !have.Up {
		errs = append(errs, fmt.Errorf("verify interface %s: it is down, was up", want.Name))
	}
	if lost := want.Settings.Beyond(have.Settings); lost != (rtnl.Settings{}) {
		errs = append(errs, fmt.Errorf("verify interface %s: it is no more: %s", want.Name, lost))
	}
	for _, s := range slices.Concat(without(want.Addresses, have.Addresses), missing, without(want.Neighbours, have.Neighbours)) {
		errs = append(errs, fmt.Errorf("verify interface %s: %s is missing", want.Name, s.Text))
	}
	return errors.Join(errs...)
}

// without are the entries of a list that another lacks.
func without(list, other []rtnl.Saved) []rtnl.Saved {
	var out []rtnl.Saved
	for _, s := range list {
		if !slices.ContainsFunc(other, s.Equal) {
			out = append(out, s)
		}
	}
	return out
}
