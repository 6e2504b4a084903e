// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth

import (
	"context"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// links lists those links of the namespace that could be a held NIC: a pod may
// have made any number of others.
func (n *namespace) links() ([]rtnl.Link, error) {
	conn, err := rtnl.Dial(n.fd)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.Limit(rtnl.PodEntries)
	return conn.LinksWhere(func(l *rtnl.Link) bool {
		one := []rtnl.Link{*l}
		return slices.ContainsFunc(n.held, func(h model.NIC) bool {
			return h.Interface != nil && find(one, h, n.seen[slicecodec.NICName(h)]) != nil
		})
	})
}

// speeds are those of the held hardware that has a carrier, in Mbit/s by ifindex.
func (n *namespace) speeds(links []rtnl.Link) (map[int]int, error) {
	known := map[int]int{}
	for _, h := range n.held {
		if h.PCI == nil || h.Interface == nil {
			continue
		}
		l := find(links, h, 0)
		if l == nil || l.State != "up" {
			continue
		}
		conn, err := ethtool.Dial(n.fd)
		if err != nil {
			return nil, err
		}
		mbits, ok, err := conn.LinkSpeed(l.Name)
		conn.Close()
		if err == nil && ok { // a driver that does not report it is no fault
			known[l.Index] = mbits
		}
	}
	return known, nil
}

// observed takes what a namespace shows of its devices.
func (w *Watcher) observed(ctx context.Context, n *namespace, links []rtnl.Link, speeds map[int]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return // removed meanwhile: its devices are being moved
	}
	now := time.Now()
	for _, h := range n.held {
		if h.Interface == nil {
			continue
		}
		name := slicecodec.NICName(h)
		f := findings{}
		l := find(links, h, n.seen[name])
		if l != nil {
			n.seen[name] = l.Index
			f.carrier(l.Up, l.State)
			if mbits, ok := speeds[l.Index]; ok {
				f.speed(mbits, w.fastest(name, mbits))
			}
		}
		// What never came may be on its way, or bear another address there.
		if h.PCI == nil && n.seen[name] != 0 {
			f.gone(l == nil && !w.onHost[name], "the interface is neither in its pod nor on the host")
		}
		w.tracker.observe(name, f, now)
	}
	w.tick(now)
}

// find returns the link that a held NIC is, or nil: the one it was found as
// before, at its PCI address, or of its permanent or its present hardware
// address. A pod may rename it.
func find(links []rtnl.Link, h model.NIC, seen int) *rtnl.Link {
	at := func(l *rtnl.Link) bool {
		return h.PCI != nil && l.BusAddress != nil && *l.BusAddress == h.PCI.String()
	}
	burnedIn := func(l *rtnl.Link) bool { return same(l.PermanentMAC, h.Interface.PermanentMAC) }
	for _, is := range []func(*rtnl.Link) bool{
		func(l *rtnl.Link) bool { return seen != 0 && l.Index == seen },
		func(l *rtnl.Link) bool { return at(l) && burnedIn(l) },
		burnedIn,
		func(l *rtnl.Link) bool { return at(l) && h.Port == nil },
		func(l *rtnl.Link) bool { return h.PCI == nil && same(l.MAC, h.Interface.MAC) },
	} {
		for i := range links {
			if is(&links[i]) {
				return &links[i]
			}
		}
	}
	return nil
}

// same says whether two known values are equal.
func same(a, b *string) bool { return a != nil && b != nil && *a == *b }
