// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

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

// coalesce is how long events are gathered before a look.
const coalesce = 50 * time.Millisecond

// retryDelay is the wait after events were lost or a look failed.
const retryDelay = time.Second

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
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		// Subscribe before looking, so that nothing falls between.
		listening, stop := context.WithCancel(ctx)
		defer stop()
		if events, err := rtnl.SubscribeLinks(listening, n.fd); err == nil {
			w.follow(ctx, n, events)
		}
	}, retryDelay)
}

// follow looks until events are lost or a look fails.
func (w *Watcher) follow(ctx context.Context, n *namespace, events <-chan struct{}) {
	for {
		links, err := n.links()
		var speeds map[int]int
		if err == nil {
			speeds, err = n.speeds(links)
		}
		if err != nil || ctx.Err() != nil {
			return
		}
		w.observed(ctx, n, links, speeds)
		if _, open := <-events; !open {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(coalesce):
		}
	}
}
