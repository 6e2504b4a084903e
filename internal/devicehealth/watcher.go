// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Options are the delays of a Watcher; zero takes the default.
type Options struct {
	// Raise is how long something has to be wrong (2 s), Clear how long it has
	// to be well again (5 s).
	Raise, Clear time.Duration
	// Settle is how long findings of a NIC that was moved are ignored (15 s):
	// links of 400 Gbit/s train for that long.
	Settle time.Duration
}

// Watcher knows the faults of a node's NICs. It is safe for concurrent use.
type Watcher struct {
	mu      sync.Mutex
	tracker tracker
	// known are the devices of the last scan and of pods; usual is the highest
	// speed seen of each, in Mbit/s; onHost are those that the last scan saw.
	known, onHost map[string]bool
	usual         map[string]int
	namespaces    map[string]*namespace // by claim
	listeners     []chan struct{}
	timer         *time.Timer
	closed        bool
}

// New returns a Watcher that knows of nothing yet.
func New(o Options) *Watcher {
	return &Watcher{
		tracker: tracker{
			raise: cmp.Or(o.Raise, 2*time.Second), clear: cmp.Or(o.Clear, 5*time.Second),
			settle: cmp.Or(o.Settle, 15*time.Second), devices: map[string]*device{},
		},
		usual:      map[string]int{},
		namespaces: map[string]*namespace{},
	}
}

// Close stops listening everywhere.
func (w *Watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	for claim := range w.namespaces {
		w.remove(claim)
	}
}

// Scanned takes a scan of the host, and the NICs of all records as they were on
// the host.
func (w *Watcher) Scanned(m *model.Machine, held []model.NIC) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.known, w.onHost = map[string]bool{}, map[string]bool{}
	for i := range m.NICs {
		n := &m.NICs[i]
		name := slicecodec.NICName(*n)
		w.onHost[name] = n.Interface != nil || n.RDMA != nil
		if n.Withheld == nil {
			w.known[name] = true
			w.tracker.observe(name, w.hostFindings(m, n, name), now)
		}
	}
	for _, n := range held {
		name := slicecodec.NICName(n)
		w.known[name] = true
		w.tracker.observe(name, w.heldFindings(m, n, name), now)
	}
	w.tracker.keep(w.known)
	maps.DeleteFunc(w.usual, func(name string, _ int) bool { return !w.known[name] })
	w.tick(now)
}

// hostFindings are about a NIC that is on the host.
func (w *Watcher) hostFindings(m *model.Machine, n *model.NIC, name string) findings {
	f := findings{}
	f.gone(false, "")
	if n.PCI != nil {
		f.pcie(m, *n.PCI)
	}
	if i := n.Interface; i != nil && i.Up != nil && i.State != nil {
		f.carrier(*i.Up, *i.State)
		if i.SpeedMbps != nil && f[model.FaultCarrier] == nil {
			f.speed(*i.SpeedMbps, w.fastest(name, *i.SpeedMbps))
		}
	}
	return f
}

// heldFindings are what the host still tells of a NIC in a pod: whether its PCI
// function is there, and how that is connected.
func (w *Watcher) heldFindings(m *model.Machine, n model.NIC, name string) findings {
	if n.Interface != nil && n.Interface.SpeedMbps != nil {
		w.fastest(name, *n.Interface.SpeedMbps)
	}
	f := findings{}
	if n.PCI == nil {
		return f
	}
	f.gone(m.Function(*n.PCI) == nil, "the machine has no PCI function "+n.PCI.String()+" any more")
	f.pcie(m, *n.PCI)
	return f
}

// fastest is the highest speed that a device was seen with.
func (w *Watcher) fastest(name string, mbits int) int {
	w.usual[name] = max(w.usual[name], mbits)
	return w.usual[name]
}

// tick lets faults come and go, tells the listeners, and sets the clock for what
// is under way.
func (w *Watcher) tick(now time.Time) {
	changed, next := w.tracker.tick(now)
	if changed {
		for _, l := range w.listeners {
			select {
			case l <- struct{}{}:
			default: // one is pending, and covers this change too
			}
		}
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	if next.IsZero() || w.closed {
		return
	}
	w.timer = time.AfterFunc(time.Until(next), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.closed {
			w.tick(time.Now())
		}
	})
}

// Faults lists the faults by device name.
func (w *Watcher) Faults() map[string][]model.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tracker.faults()
}

// Devices lists, sorted, the names of all devices that are watched, faulty or
// not.
func (w *Watcher) Devices() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.known))
}

// Subscribe returns a channel that has a value when there are other faults than
// before. Each caller gets one of its own.
func (w *Watcher) Subscribe() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := make(chan struct{}, 1)
	w.listeners = append(w.listeners, l)
	return l
}
