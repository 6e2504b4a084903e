// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/metrics"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// Preparer prepares and unprepares claims of one driver. It keeps nothing in
// memory: another process may unprepare what this one prepared.
type Preparer struct {
	Driver
	Journal *journal.Journal
	CDI     *cdi.Dir
	BootID  string
	// Machine is the newest picture of the host.
	Machine func() *model.Machine
	// RuntimeReady says why the container runtime cannot be reached, or nil.
	RuntimeReady func() error
	// Namespaces are the pods' network namespaces.
	Namespaces Namespaces
	// Status tells the claim's readers.
	Status func(status.Report)
	// Changed is called after a record came or went.
	Changed func()
	// Confine has every container leave what a claim holds, and take what none
	// holds any more; nil where containers need not be moved.
	Confine func(ctx context.Context) error
	// Resolve adds the layers of configuration that come from elsewhere; nil
	// where none do. It may be slow.
	Resolve func(ctx context.Context, c driver.Claim) (driver.Claim, error)
	// Release gives back what Resolve was given, also for a claim that was
	// never planned; nil where nothing is. It is quick.
	Release func(ctx context.Context, claim driver.ClaimRef) error
	// Missing says which of a record's devices are not in the network namespace
	// at a path, a sentence each; nil where nobody can tell.
	Missing func(r driver.Record, netns string) ([]string, error)
	// Guard is where plumbline-guard lies on the host; empty where it cannot
	// run.
	Guard string
	// Health is told to the kubelet; nil where nobody watches it.
	Health *Health
	// Metrics counts; nil counts nothing.
	Metrics *metrics.Metrics
	// Did hears of every step; nil outside of tests.
	Did func(Step)
}

// Namespaces are the network namespaces that devices were attached into. Call
// it with the record's claim locked.
type Namespaces interface {
	// Of is a path into the namespace where the record's devices are or belong;
	// empty when there is none.
	Of(r driver.Record) string
	// Drop lets go of the namespace.
	Drop(r driver.Record)
}

// Prepare makes a claim ready to be used. Asked again, it answers the same.
func (p *Preparer) Prepare(ctx context.Context, c driver.Claim) (driver.Record, error) {
	r, err := p.tryPrepare(ctx, c)
	if err != nil {
		p.Status(p.refused(c, err))
		return driver.Record{}, err
	}
	if p.Attacher == nil { // a device for the namespace is not ready before it is there
		p.Status(status.Of(r, status.Prepared, nil))
	}
	return r, nil
}

func (p *Preparer) tryPrepare(ctx context.Context, c driver.Claim) (driver.Record, error) {
	if p.NeedsRuntime() {
		if err := p.RuntimeReady(); err != nil {
			return driver.Record{}, fmt.Errorf("prepare claim %s for %s: %w", c.ClaimRef, p.Name(), err)
		}
	}
	start := time.Now()
	unlock, err := p.Journal.LockClaim(ctx, p.Name(), c.UID)
	if err != nil {
		return driver.Record{}, err
	}
	defer unlock()
	p.Metrics.Prepared(p.Name(), metrics.StepLock, start)
	planning := time.Now()
	r, err := p.record(ctx, c)
	if err != nil {
		return driver.Record{}, err
	}
	p.Metrics.Prepared(p.Name(), metrics.StepPlan, planning)
	if err := p.confine(ctx); err != nil {
		return driver.Record{}, fmt.Errorf("prepare claim %s: other containers still run where it does: %w", c.ClaimRef, err)
	}
	p.Took(StepConfined)
	staging := time.Now()
	if r, err = p.stage(ctx, r); err != nil {
		return driver.Record{}, err
	}
	p.Metrics.Prepared(p.Name(), metrics.StepStage, staging)
	writing := time.Now()
	if err := p.writeSpec(r); err != nil {
		return driver.Record{}, err
	}
	p.Took(StepSpecWritten)
	p.Metrics.Prepared(p.Name(), metrics.StepCDI, writing)
	p.Metrics.Prepared(p.Name(), metrics.StepTotal, start)
	p.Changed()
	return r, nil
}

// record returns the claim's journaled record, or plans and journals one. The
// claim is locked.
func (p *Preparer) record(ctx context.Context, c driver.Claim) (driver.Record, error) {
	known, err := p.Journal.Get(p.Name(), c.UID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return driver.Record{}, err
	case known.BootID == p.BootID && sameDevices(known, c):
		if slices.Equal(known.Pods, c.Pods) {
			return known, nil
		}
		known.Pods = c.Pods
		return known, p.Journal.Put(known)
	case known.BootID == p.BootID:
		// The claim was given other devices since, and nobody said that the
		// old ones are free.
		if err := p.undo(ctx, known); err != nil {
			return driver.Record{}, err
		}
	}
	return p.plan(ctx, c)
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
	held, problems, err := p.Journal.List(p.Name())
	if err != nil {
		return driver.Record{}, err
	}
	held = slices.DeleteFunc(held, func(r driver.Record) bool { return r.Claim.UID == c.UID })
	if len(problems) > 0 {
		// What an unreadable record holds must not be given away twice.
		return driver.Record{}, fmt.Errorf("prepare claim %s: a record in the journal cannot be read, so nobody knows which devices it holds: %w", c.ClaimRef, problems[0])
	}
	r, err := planner.Plan(c, machine, held)
	if err != nil {
		return driver.Record{}, err
	}
	r.BootID = p.BootID
	if err := p.Journal.Put(r); err != nil {
		return driver.Record{}, err
	}
	p.Took(StepPlanned)
	return r, nil
}

// Unprepare undoes a claim by its UID alone; the claim may be deleted, and the
// process another one. It is no error when there is nothing to undo.
func (p *Preparer) Unprepare(ctx context.Context, claim driver.ClaimRef) error {
	unlock, err := p.Journal.LockClaim(ctx, p.Name(), claim.UID)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := p.Journal.Get(p.Name(), claim.UID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A claim whose plan was refused may have been given something.
		return errors.Join(p.release(ctx, claim), p.CDI.Remove(p.Name(), claim.UID))
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
	if err := p.CDI.Remove(p.Name(), claim.UID); err != nil {
		return err
	}
	p.Took(StepSpecRemoved)
	// Last, so that an interrupted unprepare is found and repeated.
	if err := p.Journal.Delete(p.Name(), claim.UID); err != nil {
		return err
	}
	p.Took(StepForgotten)
	if err := p.confine(ctx); err != nil {
		// They are where they were; the claim has gone all the same.
		klog.FromContext(ctx).Error(err, "containers do not have the claim's CPUs back yet", "driver", p.Name(), "claim", claim.String())
	}
	p.Took(StepSetFree)
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
// come between the two, and /run is empty after a reboot.
func (p *Preparer) Recover(ctx context.Context) error {
	records, problems, err := p.Journal.List(p.Name())
	if err != nil {
		return err
	}
	for _, problem := range problems {
		klog.FromContext(ctx).Error(problem, "journal record cannot be read; no claim of this driver is prepared while it is there", "driver", p.Name())
	}
	known := map[types.UID]bool{}
	for _, r := range records {
		known[r.Claim.UID] = true
		if err := p.writeSpec(r); err != nil {
			return err
		}
	}
	uids, err := p.CDI.Claims(p.Name())
	if err != nil {
		return err
	}
	for _, uid := range uids {
		if known[uid] || len(problems) > 0 {
			continue
		}
		if err := p.CDI.Remove(p.Name(), uid); err != nil {
			return err
		}
	}
	return nil
}

func sameDevices(r driver.Record, c driver.Claim) bool {
	return slices.EqualFunc(r.Devices, c.Devices, func(d driver.DeviceRecord, a driver.Allocation) bool {
		share := ""
		if a.ShareID != nil {
			share = string(*a.ShareID)
		}
		return d.Request == a.Request && d.Pool == a.Pool && d.Device == a.Device && d.ShareID == share
	})
}

func (p *Preparer) refused(c driver.Claim, err error) status.Report {
	out := status.Report{Driver: p.Name(), Claim: c.ClaimRef, Pods: c.Pods}
	for _, a := range c.Devices {
		s := status.DeviceState{Pool: a.Pool, Device: a.Device, Reason: status.PrepareFailed, Err: err}
		if a.ShareID != nil {
			s.ShareID = string(*a.ShareID)
		}
		out.Devices = append(out.Devices, s)
	}
	return out
}
