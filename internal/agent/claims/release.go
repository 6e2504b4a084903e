// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/driver"
)

const (
	// ReleaseAtMost is how long to wait for devices that other claims hold. A pod
	// deleted without grace is gone from the API server at once, and its containers
	// take some seconds more; refused, the next one would wait for the kubelet's
	// back-off.
	ReleaseAtMost = 30 * time.Second
	// answerReserve is kept of the kubelet's limit of a call, 45 s
	// (pkg/kubelet/cm/dra/plugin), to prepare and to answer in.
	answerReserve = 10 * time.Second
	// lookForRelease is how often to look for what another agent has released:
	// during an upgrade there are two.
	lookForRelease = time.Second
)

// releases wakes the claims that wait for devices when some are free.
type releases struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next release; nil while none waits
}

// wait returns a channel that is closed at the next release.
func (r *releases) wait() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}

func (r *releases) signal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil {
		close(r.next)
		r.next = nil
	}
}

// prepareReleased prepares a claim that was refused over what other claims hold,
// as soon as they let go. No lock is held while it waits. The error is the last
// refusal.
func (p *Preparer) prepareReleased(ctx context.Context, c driver.Claim, refused error) (driver.Record, error) {
	limit := p.ReleaseAtMost
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)-answerReserve)
	}
	if limit <= 0 {
		return driver.Record{}, refused
	}
	logger, start := klog.FromContext(ctx), time.Now()
	logger.Info("waiting for other claims to let go", "driver", p.Name(), "claim", c.String(), "reason", refused.Error(), "atMost", limit)
	late := time.NewTimer(limit)
	defer late.Stop()
	look := time.NewTicker(lookForRelease)
	defer look.Stop()
	for {
		released := p.releases.wait() // before the look, so that none is missed
		r, err := p.tryPrepare(ctx, c)
		if !driver.OnlyHeld(err) {
			logger.Info("waited for other claims", "driver", p.Name(), "claim", c.String(), "waited", time.Since(start))
			return r, err
		}
		if p.Waits != nil {
			p.Waits()
		}
		select {
		case <-released:
		case <-look.C:
		case <-late.C:
			return driver.Record{}, err
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // the kubelet gave up: nothing would unprepare the claim
			return driver.Record{}, err
		}
	}
}
