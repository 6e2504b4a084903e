// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"reflect"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/model"
)

// coalesce is how long Watch gathers events before it scans: a link that comes
// up sends a handful.
const coalesce = 50 * time.Millisecond

// rest is how many times as long as a scan took Watch waits until the next, so
// that a link that flaps all day costs a tenth of a core at most.
const rest = 9

// resubscribe is the wait between attempts to subscribe to events again.
const resubscribe = time.Second

// Snapshot is what one scan of Watch found.
type Snapshot struct {
	Machine  *model.Machine
	Problems []Problem
	// Err is set when the scan failed; Machine is nil then, and the one before
	// remains valid.
	Err error
}

// Watch scans at once, after each burst of events, and every resync without
// one. It sends a Snapshot only when it differs from the last, and
// closes the channel when ctx ends.
func Watch(ctx context.Context, src Sources, opt Options, resync time.Duration) <-chan Snapshot {
	out := make(chan Snapshot)
	w := watch{src: src, opt: opt, out: out}
	go func() {
		defer close(out)
		w.run(ctx, resync)
	}()
	return out
}

type watch struct {
	src  Sources
	opt  Options
	out  chan<- Snapshot
	last *Snapshot
	next time.Time // the earliest next scan that an event may cause
}

func (w *watch) run(ctx context.Context, resync time.Duration) {
	again := time.NewTimer(0) // subscribes, and repeats after a loss
	defer again.Stop()
	tick := time.NewTicker(resync)
	defer tick.Stop()
	var events <-chan struct{}
	var gathered <-chan time.Time
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			// Subscribe before scanning, so that no change is missed.
			if events = w.subscribe(ctx); events == nil && w.src.Links != nil {
				again.Reset(resubscribe)
			}
			due = true
		case _, open := <-events:
			if !open {
				if ctx.Err() == nil && w.opt.Lost != nil {
					w.opt.Lost()
				}
				events = nil
				again.Reset(coalesce)
			} else if gathered == nil {
				gathered = time.After(max(coalesce, time.Until(w.next)))
			}
		case <-gathered:
			gathered, due = nil, true
		case <-tick.C:
			due = true
		}
		if due && !w.scan(ctx) {
			return
		}
	}
}

func (w *watch) subscribe(ctx context.Context) <-chan struct{} {
	if w.src.Links == nil {
		return nil
	}
	events, err := w.src.Links.Subscribe(ctx)
	if err != nil {
		return nil
	}
	return events
}

// scan scans and sends what is new; false when ctx ended.
func (w *watch) scan(ctx context.Context) bool {
	var s Snapshot
	started := time.Now()
	s.Machine, s.Problems, s.Err = Scan(ctx, w.src, w.opt)
	w.next = time.Now().Add(rest * time.Since(started))
	if ctx.Err() != nil {
		return false
	}
	if w.last != nil && same(*w.last, s) {
		return true
	}
	w.last = &s
	select {
	case w.out <- s:
		return true
	case <-ctx.Done():
		return false
	}
}

// same says whether two scans found the same. Machines hold no clocks and no
// counters, so equal values mean an unchanged machine.
func same(a, b Snapshot) bool {
	return text(a.Err) == text(b.Err) && reflect.DeepEqual(a.Machine, b.Machine) &&
		slices.EqualFunc(a.Problems, b.Problems, func(x, y Problem) bool { return x.String() == y.String() })
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
