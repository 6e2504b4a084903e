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

// working is who works on a claim now. Work outlives who asked for it: a hook that
// was late, a call of a kubelet that hung up.
type working struct {
	mu    sync.RWMutex // read-locked by who works
	ended bool
}

// Lock locks a claim of the driver, among all processes: whoever moves its devices,
// or uses the namespaces that they are in, has it locked.
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

// End waits until nobody works on a claim, and closes what the driver has open.
func (p *Preparer) End() {
	p.working.mu.Lock()
	defer p.working.mu.Unlock()
	p.working.ended = true
	if p.Close != nil {
		p.Close()
	}
}
