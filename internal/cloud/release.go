// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Run releases claims that have ended at the provider, and retries until that
// succeeds: also those that ended before this process began, or that another agent
// unprepared during an upgrade.
func (p *Profiles) Run(ctx context.Context) {
	pause := backoff(p.Poll)
	for {
		err := p.releaseAll(ctx)
		if ctx.Err() != nil {
			return
		}
		again := p.Poll.Refresh
		if err != nil {
			again = pause.Step()
			klog.FromContext(ctx).Error(err, "what a profile gave is not given back yet", "retryIn", again.Round(time.Second))
		} else {
			pause = backoff(p.Poll)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		case <-p.awake():
		}
	}
}

func (p *Profiles) releaseAll(ctx context.Context) error {
	uids, err := p.claims()
	if err != nil {
		return err
	}
	var errs []error
	for _, uid := range uids {
		errs = append(errs, p.releaseEnded(ctx, uid))
	}
	return errors.Join(errs...)
}

// releaseEnded looks again under the claim's lock: it may have begun anew, or
// another agent may have been quicker.
func (p *Profiles) releaseEnded(ctx context.Context, uid types.UID) error {
	known, err := p.read(uid)
	if err != nil || known == nil || !known.Ended {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Poll.Limit)
	defer cancel()
	unlock, err := p.Lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	known, err = p.read(uid)
	if err != nil || known == nil || !known.Ended {
		return err
	}
	return p.releaseClaim(ctx, known)
}
