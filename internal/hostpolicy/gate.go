// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"plumbline.dev/plumbline/internal/model"
)

// errClosing says that a change is not asked for before claims are kept away.
var errClosing = errors.New("claims are kept from the function and its virtual ones first")

// closedFor is how long claims must have been kept from a function before what they hold is
// looked at for the last time: a claim that was let in just before is on record by then.
const closedFor = 5 * time.Second

// Gate keeps new claims from physical functions whose number of virtual ones is about to
// change, and from these: it may change at any time between the asking and the answer, and
// takes away what a claim got meanwhile. Its zero value is open.
type Gate struct {
	mu     sync.Mutex
	closed map[string]time.Time // since when, by PCI address
	// before are those when the look began that goes on; wanted is what it wants.
	before []string
	wanted map[string]bool
}

// Begin starts a look. What was asked for functions by the process before this one may yet
// be done: the gate is closed for them too.
func (g *Gate) Begin(asked []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.wanted = slices.Sorted(maps.Keys(g.closed)), map[string]bool{}
	for _, function := range asked {
		g.shut(function)
	}
}

// shut returns since when the gate is closed for a function.
func (g *Gate) shut(function string) time.Time {
	if g.closed == nil {
		g.closed = map[string]time.Time{}
	}
	if _, closed := g.closed[function]; !closed {
		g.closed[function] = time.Now()
	}
	return g.closed[function]
}

// close wants the gate closed for a function, and says whether it has been for long enough.
func (g *Gate) close(function string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted[function] = true
	return time.Since(g.shut(function)) >= closedFor
}

// End opens the gate for what the look did not want closed and for which nothing is asked:
// that is tried again and again. While what was asked for before may yet be done, it stays as
// it is. It says whether it is closed for others than before.
func (g *Gate) End(asked []string, unsettled bool) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for function := range g.closed {
		if !g.wanted[function] && !unsettled && !slices.Contains(asked, function) {
			delete(g.closed, function)
		}
	}
	return !slices.Equal(g.before, slices.Sorted(maps.Keys(g.closed)))
}

// Closed says whether the gate is closed for any function.
func (g *Gate) Closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.closed) > 0
}

// Withhold takes the functions that the gate is closed for, and their virtual ones, out of
// a machine's offer, but for NICs that are held. The machine is not changed.
func (g *Gate) Withhold(m *model.Machine, held []model.NIC) *model.Machine {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.closed) == 0 {
		return m
	}
	changed := *m
	changed.NICs = slices.Clone(m.NICs)
	for i := range changed.NICs {
		n := &changed.NICs[i]
		if n.PCI == nil || !n.Offered() || slices.ContainsFunc(held, func(h model.NIC) bool { return h.PCI != nil && *h.PCI == *n.PCI }) {
			continue
		}
		function := *n.PCI
		if f := m.Function(function); f != nil && f.PhysicalFunction != nil {
			function = *f.PhysicalFunction
		}
		if _, closed := g.closed[function.String()]; closed {
			n.Withhold("waits for a HostPolicy to change how many virtual functions " + function.String() + " has")
		}
	}
	return &changed
}
