// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// namespace is one network namespace that is listened to.
type namespace struct {
	fd   int // our own
	held []model.NIC
	// seen are the ifindexes that devices were found with, by device name.
	seen map[string]int
	stop context.CancelFunc
}

// gather is how long events are gathered before a look.
const gather = 50 * time.Millisecond

// again is the wait after events were lost or a look failed.
const again = time.Second

// Add listens in the network namespace of a descriptor, which stays the caller's
// and may be closed, until Remove of the same claim. held are the claim's NICs
// as they were on the host. A second Add takes the place of the first; one after
// Close does nothing.
func (w *Watcher) Add(claim string, fd int, held []model.NIC) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("watch the devices of claim %s: %w", claim, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &namespace{fd: own, held: held, seen: map[string]int{}, stop: stop}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		stop()
		return unix.Close(own)
	}
	w.remove(claim)
	w.namespaces[claim] = n
	w.moving(n)
	go w.listen(ctx, n)
	return nil
}

// Remove stops listening for a claim. It is no error when nobody listens.
func (w *Watcher) Remove(claim string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(claim)
}

func (w *Watcher) remove(claim string) {
	n := w.namespaces[claim]
	if n == nil {
		return
	}
	delete(w.namespaces, claim)
	w.moving(n)
	n.stop()
}

func (w *Watcher) moving(n *namespace) {
	now := time.Now()
	for _, h := range n.held {
		w.tracker.moving(slicecodec.NICName(h), now)
	}
}

// listen looks at once, and after each burst of events, until ctx ends.
func (w *Watcher) listen(ctx context.Context, n *namespace) {
	defer func() { _ = unix.Close(n.fd) }()
	for {
		// Subscribe before looking, so that nothing falls between.
		listening, stop := context.WithCancel(ctx)
		events, err := rtnl.SubscribeLinks(listening, n.fd)
		if err == nil {
			w.follow(ctx, n, events)
		}
		stop()
		if !sleep(ctx, again) {
			return
		}
	}
}

// follow looks until events are lost or a look fails.
func (w *Watcher) follow(ctx context.Context, n *namespace, events <-chan struct{}) {
	for {
		links, err := linksOf(n.fd)
		var speeds map[int]int
		if err == nil {
			speeds, err = n.speeds(links)
		}
		if err != nil || ctx.Err() != nil {
			return
		}
		w.looked(ctx, n, links, speeds)
		if _, open := <-events; !open || !sleep(ctx, gather) {
			return
		}
	}
}

// sleep returns false when ctx ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func linksOf(fd int) ([]rtnl.Link, error) {
	conn, err := rtnl.Dial(fd)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Links()
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
		if err == nil && ok { // a driver that does not tell it is no fault
			known[l.Index] = mbits
		}
	}
	return known, nil
}

// looked takes what a namespace shows of its devices.
func (w *Watcher) looked(ctx context.Context, n *namespace, links []rtnl.Link, speeds map[int]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return // removed meanwhile: what it shows is on its way
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
