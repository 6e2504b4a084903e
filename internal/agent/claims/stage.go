// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/driver"
)

// stage does the driver's slow work. The record is on disk already, so that
// whoever comes next can undo it, and is written again with what was learned.
// The claim is locked.
func (p *Preparer) stage(ctx context.Context, r driver.Record) (driver.Record, error) {
	if p.Stager == nil {
		return r, nil
	}
	staged, err := p.Stager.Stage(ctx, r)
	if err != nil {
		return r, errors.Join(fmt.Errorf("prepare claim %s for %s: %w", r.Claim, r.Driver, err), p.abandon(ctx, r))
	}
	p.ReportStep(StepStaged)
	// The disk is the slowest part of most claims, and most teach nothing.
	if !reflect.DeepEqual(staged, r) {
		if err := p.Journal.Put(staged); err != nil {
			return r, err
		}
	}
	p.ReportStep(StepStageJournaled)
	return staged, nil
}

// abandon forgets a record whose staging failed: the next try plans anew, and
// its devices are free meanwhile. A record that a pod may use by now is kept.
func (p *Preparer) abandon(ctx context.Context, r driver.Record) error {
	if p.Namespaces.Of(r) != "" {
		return nil
	}
	if err := p.undo(ctx, r); err != nil {
		return fmt.Errorf("and what was done is not undone yet: %w", err)
	}
	if err := p.removeFiles(r.Claim.UID); err != nil {
		return err
	}
	if err := p.Journal.Delete(r.Driver, r.Claim.UID); err != nil {
		return err
	}
	p.releases.signal()
	return nil
}

// undo brings the record's devices back from wherever its pods have them, and
// then undoes what was done to them on the host. After a reboot the kernel has
// done so itself.
func (p *Preparer) undo(ctx context.Context, r driver.Record) error {
	if r.BootID != p.BootID {
		return nil
	}
	if p.Attacher != nil {
		err := p.Attacher.Detach(ctx, r, p.Namespaces.Of(r))
		if driver.OnlyGone(err) {
			klog.FromContext(ctx).Info("nothing to bring back", "driver", r.Driver, "claim", r.Claim.String(), "reason", err.Error())
		} else if err != nil {
			return fmt.Errorf("detach claim %s: %w", r.Claim, err)
		}
		p.Namespaces.Drop(r)
		p.ReportStep(StepDetached)
	}
	if p.Stager != nil {
		if err := p.Stager.Unstage(ctx, r); err != nil {
			return fmt.Errorf("unstage claim %s: %w", r.Claim, err)
		}
		p.ReportStep(StepUnstaged)
	}
	return nil
}
