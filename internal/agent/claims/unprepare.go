// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/metrics"
)

// Unprepare undoes a claim by its UID alone; the claim may be deleted, and the
// process another one. It is no error when there is nothing to undo.
func (p *Preparer) Unprepare(ctx context.Context, claim driver.ClaimRef) error {
	err := p.tryUnprepare(ctx, claim)
	p.Metrics.Claim(p.Name(), metrics.CallUnprepare, reasonOf(err))
	return err
}

func (p *Preparer) tryUnprepare(ctx context.Context, claim driver.ClaimRef) error {
	unlock, err := p.Lock(ctx, claim.UID)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := p.Journal.Get(p.Name(), claim.UID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A claim whose plan was refused may have been given something, and says so.
		p.Status(status.Report{Driver: p.Name(), Claim: claim})
		return errors.Join(p.release(ctx, claim), p.removeFiles(claim.UID))
	case err != nil && p.Attacher != nil:
		return fmt.Errorf("unprepare claim %s: the record that says how to bring its devices back cannot be read: %w", claim, err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "dropping an unreadable record", "driver", p.Name(), "claim", claim.String())
	default:
		if err := p.undo(ctx, r); err != nil {
			p.Status(status.Of(r, status.RestoreFailed, err))
			return err
		}
	}
	if err := p.release(ctx, claim); err != nil {
		return err
	}
	if err := p.removeFiles(claim.UID); err != nil {
		return err
	}
	p.ReportStep(StepSpecRemoved)
	// Last, so that an interrupted unprepare is found and repeated.
	if err := p.Journal.Delete(p.Name(), claim.UID); err != nil {
		return err
	}
	p.ReportStep(StepForgotten)
	p.releases.signal()
	if err := p.confine(ctx); err != nil {
		// They are where they were; the claim has gone all the same.
		klog.FromContext(ctx).Error(err, "containers do not have the claim's CPUs back yet", "driver", p.Name(), "claim", claim.String())
	}
	p.ReportStep(StepSetFree)
	p.Status(status.Report{Driver: p.Name(), Claim: claim})
	p.Changed()
	return nil
}

func (p *Preparer) confine(ctx context.Context) error {
	if p.Confine == nil {
		return nil
	}
	return p.Confine(ctx)
}

func (p *Preparer) release(ctx context.Context, claim driver.ClaimRef) error {
	if p.Release == nil {
		return nil
	}
	if err := p.Release(ctx, claim); err != nil {
		return fmt.Errorf("unprepare claim %s: %w", claim, err)
	}
	return nil
}

// Recover makes the CDI directory say what the journal says: a crash may have
// come between the two, and /run is empty after a reboot. Files are listed before
// records, which are there first: while this agent takes over, the one before it goes
// on preparing claims.
func (p *Preparer) Recover(ctx context.Context) error {
	uids, err := p.CDI.Claims(p.Name())
	if err != nil {
		return err
	}
	told, err := p.describedClaims()
	if err != nil {
		return err
	}
	records, problems, err := p.Journal.List(p.Name())
	if err != nil {
		return err
	}
	for _, problem := range problems {
		p.tellUnreadable(ctx, problem, "its claim stays as it is, and no part of a device is given to another while it is there")
	}
	known := map[types.UID]bool{}
	for _, r := range records {
		known[r.Claim.UID] = true
		if err := p.decodes(r); err != nil {
			p.tellUnreadable(ctx, err, "its claim stays as it is, and no other is prepared while it is there")
		}
		if err := p.writeSpec(r); err != nil {
			return err
		}
	}
	for _, uid := range uids {
		if known[uid] || len(problems) > 0 {
			continue
		}
		if err := p.CDI.Remove(p.Name(), uid); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return nil
	}
	return p.sweepMetadata(told, known)
}
