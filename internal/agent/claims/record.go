// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"plumbline.dev/plumbline/internal/driver"
)

// record returns the claim's journaled record, or plans and journals one. The
// claim is locked.
func (p *Preparer) record(ctx context.Context, c driver.Claim) (driver.Record, error) {
	known, err := p.Journal.Get(p.Name(), c.UID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return driver.Record{}, err
	case known.BootID == p.BootID && sameDevices(known, c):
		pods := p.holders(known.Pods, c.Pods)
		if slices.Equal(known.Pods, pods) {
			return known, nil
		}
		known.Pods = pods
		return known, p.Journal.Put(known)
	case known.BootID == p.BootID:
		// The claim was given other devices since, and nobody said that the
		// old ones are free.
		if err := p.undo(ctx, known); err != nil {
			return driver.Record{}, err
		}
		defer p.releases.signal() // once the new record is there
	}
	c.Pods = p.holders(nil, c.Pods)
	return p.plan(ctx, c)
}

// holders are those of a claim's pods that have its devices. What is in one pod's
// network namespace cannot be in another's: the one that had it keeps it, or the
// first one is given it. The others are refused when they start.
func (p *Preparer) holders(before, now []driver.PodRef) []driver.PodRef {
	if p.Attacher == nil || len(now) < 2 {
		return now
	}
	for _, pod := range before {
		if slices.Contains(now, pod) {
			return []driver.PodRef{pod}
		}
	}
	return now[:1]
}

// plan decides under the driver's allocation lock: what is read as taken must
// still be taken when the decision is journaled. What takes time comes before.
func (p *Preparer) plan(ctx context.Context, c driver.Claim) (driver.Record, error) {
	var err error
	if p.Resolve != nil {
		if c, err = p.Resolve(ctx, c); err != nil {
			return driver.Record{}, fmt.Errorf("prepare claim %s: %w", c.ClaimRef, err)
		}
	}
	machine, planner := p.Machine(), p.Planner
	if p.Reader != nil {
		if planner, err = p.Reader.Read(ctx, c, machine); err != nil {
			return driver.Record{}, err
		}
	}
	unlock, err := p.Journal.LockAllocation(ctx, p.Name())
	if err != nil {
		return driver.Record{}, err
	}
	defer unlock()
	var held []driver.Record
	if held, c.Before, err = p.taken(c); err != nil {
		return driver.Record{}, err
	}
	r, err := planner.Plan(c, machine, held)
	if err == nil && p.Confirm != nil {
		err = p.Confirm(r)
	}
	if err != nil {
		return driver.Record{}, err
	}
	r.BootID = p.BootID
	if err := p.Journal.Put(r); err != nil {
		return driver.Record{}, err
	}
	p.ReportStep(StepPlanned)
	return r, nil
}

// taken are the records of other claims, and those of all claims before a reboot: what they
// held the kernel has taken back, and those that live on are prepared anew.
func (p *Preparer) taken(c driver.Claim) (held, before []driver.Record, err error) {
	all, problems, err := p.Journal.List(p.Name())
	if err != nil {
		return nil, nil, err
	}
	for _, r := range all {
		switch {
		case r.BootID != p.BootID:
			before = append(before, r)
		case r.Claim.UID != c.UID:
			held = append(held, r)
		}
	}
	if len(problems) > 0 && (slices.ContainsFunc(c.Devices, isShare) || p.FromPool != nil && p.FromPool(c)) {
		// Whole devices are the scheduler's to give, which knows all claims. Which
		// part of one is free, and which address of a pool, the records alone know.
		return nil, nil, fmt.Errorf("prepare claim %s: a record in the journal cannot be read, so nobody knows which part of a device or which addresses it holds: "+
			"want the pods of that claim deleted: %w", c.ClaimRef, problems[0])
	}
	return held, before, nil
}

// isShare says whether an allocation is part of a device.
func isShare(a driver.Allocation) bool { return a.ShareID != nil }

func sameDevices(r driver.Record, c driver.Claim) bool {
	return slices.EqualFunc(r.Devices, c.Devices, func(d driver.DeviceRecord, a driver.Allocation) bool {
		share := ""
		if a.ShareID != nil {
			share = string(*a.ShareID)
		}
		return d.Request == a.Request && d.Pool == a.Pool && d.Device == a.Device && d.ShareID == share
	})
}
