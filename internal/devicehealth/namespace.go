// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Held is a NIC in a pod's namespace.
type Held struct {
	// NIC is as it was on the host.
	NIC model.NIC
	// Name is what it was called in the pod; it may have been renamed since.
	Name string
}

// namespace is one network namespace that is listened to.
type namespace struct {
	fd   int // our own
	held []Held
	stop context.CancelFunc
}

// gather is how long events are gathered before a look.
const gather = 50 * time.Millisecond

// again is the wait after events were lost or a look failed.
const again = time.Second

// Add listens in the network namespace of a descriptor, which stays the caller's
// and may be closed, until Remove of the same claim. A second Add takes the
// place of the first.
func (w *Watcher) Add(claim string, fd int, held []Held) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("watch the devices of claim %s: %w", claim, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &namespace{fd: own, held: held, stop: stop}
	w.mu.Lock()
	defer w.mu.Unlock()
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
		w.tracker.moving(slicecodec.NICName(h.NIC), now)
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
		if err != nil || ctx.Err() != nil {
			return
		}
		w.looked(ctx, n, links)
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

// looked takes what a namespace shows of its devices.
func (w *Watcher) looked(ctx context.Context, n *namespace, links []rtnl.Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return // removed meanwhile: what it shows is on its way
	}
	now := time.Now()
	for _, h := range n.held {
		if h.NIC.Interface == nil {
			continue
		}
		name := slicecodec.NICName(h.NIC)
		f := findings{}
		l := h.find(links)
		if l != nil {
			f.carrier(l.Up, l.State)
		}
		if h.NIC.PCI == nil {
			f.gone(l == nil && !w.onHost[name], "the interface is neither in its pod nor on the host")
		}
		w.tracker.observe(name, f, now)
	}
	w.tick(now)
}

// find returns the link that a held NIC is, or nil: the one at its PCI address,
// of its permanent hardware address, or of its name.
func (h Held) find(links []rtnl.Link) *rtnl.Link {
	at := func(l *rtnl.Link) bool {
		return h.NIC.PCI != nil && l.BusAddress != nil && *l.BusAddress == h.NIC.PCI.String()
	}
	burnedIn := func(l *rtnl.Link) bool {
		return h.NIC.Interface.PermanentMAC != nil && l.PermanentMAC != nil && *l.PermanentMAC == *h.NIC.Interface.PermanentMAC
	}
	for _, is := range []func(*rtnl.Link) bool{
		func(l *rtnl.Link) bool { return at(l) && burnedIn(l) },
		burnedIn,
		func(l *rtnl.Link) bool { return at(l) && h.NIC.Port == nil },
		func(l *rtnl.Link) bool { return h.NIC.PCI == nil && l.Name == h.Name },
	} {
		for i := range links {
			if is(&links[i]) {
				return &links[i]
			}
		}
	}
	return nil
}
