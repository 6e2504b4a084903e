// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// gate keeps new claims out of a driver that the node shall not serve any more.
type gate struct {
	// mu is held for reading while claims are prepared, so that whoever closes the
	// gate knows that every record there will be is written.
	mu     sync.RWMutex
	closed error
}

// enter says why new claims are kept out, or nil; the function is called when
// those that came in are done.
func (g *gate) enter() (leave func(), closed error) {
	g.mu.RLock()
	return g.mu.RUnlock, g.closed
}

func (g *gate) isOpen() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.closed == nil
}

// Withdraw refuses claims that are not prepared yet, for a reason, and returns when
// no other is being prepared; nil lets them in again.
func (p *Preparer) Withdraw(reason error) {
	if reason == nil && p.gate.isOpen() {
		return // whoever waits for the gate keeps others waiting
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.gate.closed = reason
}

// admitted lets a claim that was prepared here be prepared again: the kubelet asks
// twice where it was restarted, and its pod keeps what it has.
func (p *Preparer) admitted(claim types.UID, closed error) error {
	if closed == nil {
		return nil
	}
	if _, err := p.Journal.Get(p.Name(), claim); err == nil {
		return nil
	}
	return closed
}

// Holds says whether a claim was prepared here and has not ended. A record that
// cannot be read is one: its claim may hold something. So is one of an earlier
// boot: its claim is not unprepared yet.
func (p *Preparer) Holds() (bool, error) {
	records, problems, err := p.Journal.List(p.Name())
	return len(records)+len(problems) > 0 || err != nil, err
}
