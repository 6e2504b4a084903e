// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"slices"

	"plumbline.dev/plumbline/internal/host/maddr"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// neighbourhood reads a link's. Given wanted, it reads only the kinds of which wanted
// has entries: each kind is a dump of all links.
func (h *Host) neighbourhood(index int, wanted *Neighbourhood) (Neighbourhood, error) {
	var n Neighbourhood
	var errs [4]error
	if wanted == nil || len(wanted.Neighbours) > 0 {
		n.Neighbours, errs[0] = h.Neighbours(index)
	}
	if wanted == nil || len(wanted.Proxies) > 0 {
		n.Proxies, errs[1] = h.Proxies(index)
	}
	if wanted == nil || len(wanted.UnicastEntries) > 0 {
		n.UnicastEntries, errs[2] = h.UnicastEntries(index)
	}
	if wanted == nil || len(wanted.Multicast) > 0 {
		var static map[int][]string
		static, errs[3] = maddr.Static(h.Fd())
		n.Multicast = static[index]
	}
	return n, errors.Join(errs[:]...)
}

// restoreNeighbourhood puts back what is missing.
func (h *Host) restoreNeighbourhood(index int, want *State) error {
	have, err := h.neighbourhood(index, &want.Neighbourhood)
	errs := []error{err}
	for _, missing := range [][]rtnl.Saved{
		without(want.Neighbours, have.Neighbours), without(want.Proxies, have.Proxies), without(want.UnicastEntries, have.UnicastEntries),
	} {
		for _, n := range missing {
			errs = append(errs, h.RestoreNeighbour(index, n))
		}
	}
	if missing := lacking(want.Multicast, have.Multicast); len(missing) > 0 {
		errs = append(errs, maddr.Add(h.Fd(), want.Name, missing))
		h.Step()
	}
	return errors.Join(errs...)
}

// lacking are the strings of a list that another lacks.
func lacking(list, other []string) []string {
	var out []string
	for _, word := range list {
		if !slices.Contains(other, word) {
			out = append(out, word)
		}
	}
	return out
}

func neighboursDiffer(c *comparison) []string {
	return absent(without(c.want.Neighbours, c.have.Neighbours), c.now)
}

func proxiesDiffer(c *comparison) []string {
	return absent(without(c.want.Proxies, c.have.Proxies), c.now)
}

func unicastEntriesDiffer(c *comparison) []string {
	return absent(without(c.want.UnicastEntries, c.have.UnicastEntries), c.now)
}

func multicastDiffers(c *comparison) []string {
	var texts []string
	for _, address := range lacking(c.want.Multicast, c.have.Multicast) {
		texts = append(texts, address+" is missing")
	}
	return texts
}
