// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// working counts the claims that are locked now. The work on one may outlive its
// caller: a hook that timed out, a kubelet that closed the connection.
type working struct {
	mu    sync.RWMutex // read-locked while a claim is
	ended bool
}

// Lock locks a claim of the driver, among all processes. It is held while the
// claim's devices are moved, or the namespaces that they are in are used.
func (p *Preparer) Lock(ctx context.Context, uid types.UID) (unlock func(), err error) {
	free, err := p.Journal.LockClaim(ctx, p.Name(), uid)
	if err != nil {
		return nil, err
	}
	p.working.mu.RLock()
	unlock = func() { p.working.mu.RUnlock(); free() }
	if p.working.ended {
		unlock()
		return nil, fmt.Errorf("lock claim %s of %s: %w", uid, p.Name(), errEnded)
	}
	return unlock, nil
}

var errEnded = errors.New("this agent ends; the next one goes on")

// End waits until no claim is locked, refuses further locks, and closes what the driver has open.
func (p *Preparer) End() {
	p.working.mu.Lock()
	defer p.working.mu.Unlock()
	p.working.ended = true
	if p.Close != nil {
		p.Close()
	}
}
