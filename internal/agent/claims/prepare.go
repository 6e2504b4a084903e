// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/devicemetadata"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/model"
)

// Preparer prepares and unprepares claims of one driver. It keeps nothing in
// memory: another process may unprepare what this one prepared.
type Preparer struct {
	Driver
	Journal *journal.Journal
	CDI     *cdi.Dir
	BootID  string
	// Machine is the newest scan of the host.
	Machine func() *model.Machine
	// RuntimeReady says why the container runtime cannot be reached, or nil.
	RuntimeReady func() error
	// Namespaces are the pods' network namespaces.
	Namespaces Namespaces
	// Status writes to the claim's status.
	Status func(status.Report)
	// Changed is called after a record was written or removed.
	Changed func()
	// Confine has every container leave what a claim holds, and take what none
	// holds any more; nil where containers need not be moved.
	Confine func(ctx context.Context) error
	// Resolve adds the layers of configuration that come from elsewhere, or
	// refuses the claim; nil where neither is done. It may be slow.
	Resolve func(ctx context.Context, c driver.Claim) (driver.Claim, error)
	// Release gives back what Resolve was given, also for a claim that was
	// never planned; nil where nothing is. It is quick.
	Release func(ctx context.Context, claim driver.ClaimRef) error
	// Confirm refuses a record that was planned by what is so no more; nil where nothing can
	// have changed. It is called with the allocation lock.
	Confirm func(driver.Record) error
	// Missing says which of a record's devices are not in the network namespace
	// at a path, a sentence each; nil where nobody can tell.
	Missing func(r driver.Record, netns string) ([]string, error)
	// Metadata is where containers read what they were given; nil where they are not
	// told.
	Metadata *devicemetadata.Dir
	// WithoutMetadata keeps the files of Metadata from containers, of claims that were
	// prepared before, too. They are written all the same, so that an agent that shows
	// them again has those of each claim.
	WithoutMetadata bool
	// Published are the driver's devices as they are offered at the moment; nil where
	// Metadata is.
	Published func() []resourceapi.Device
	// Guard is where plumbline-guard lies on the host; empty where it cannot
	// run.
	Guard string
	// ReleaseAtMost is how long Prepare waits for devices that other claims hold;
	// zero: not at all.
	ReleaseAtMost time.Duration
	// Waits is called while a claim waits for those, at each look; may be nil.
	Waits func()
	// Unreadable is told of each record, as Recover finds them, of which nobody can say what
	// it holds; may be nil.
	Unreadable func(problem error)
	// Metrics counts; nil counts nothing.
	Metrics *metrics.Metrics
	// OnStep is called after every step; nil outside of tests.
	OnStep func(Step)

	gate     gate
	working  working
	releases releases
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

// Prepared is what became of one claim.
type Prepared struct {
	Record driver.Record
	Err    error
}

// PrepareAll makes claims ready to be used, in their order. One that waits for
// other claims to let go of its devices holds up none of the rest.
func (p *Preparer) PrepareAll(ctx context.Context, all []driver.Claim) []Prepared {
	leave, closed := p.gate.enter()
	defer leave()
	out := make([]Prepared, len(all))
	var waiting sync.WaitGroup
	for i, c := range all {
		if err := p.admitted(c.UID, closed); err != nil {
			out[i].Record, out[i].Err = p.report(c, driver.Record{}, withReason(reasonWithdrawn, fmt.Errorf("prepare claim %s for %s: %w", c.ClaimRef, p.Name(), err)))
			continue
		}
		r, err := p.tryPrepare(ctx, c)
		if driver.OnlyHeld(err) {
			waiting.Go(func() {
				r, err := p.prepareReleased(ctx, c, err)
				out[i].Record, out[i].Err = p.report(c, r, err)
			})
			continue
		}
		out[i].Record, out[i].Err = p.report(c, r, err)
	}
	waiting.Wait()
	return out
}

// Prepare makes a claim ready to be used. It is idempotent.
func (p *Preparer) Prepare(ctx context.Context, c driver.Claim) (driver.Record, error) {
	done := p.PrepareAll(ctx, []driver.Claim{c})[0]
	return done.Record, done.Err
}

// report counts the outcome of a claim, and writes it to the claim's status.
func (p *Preparer) report(c driver.Claim, r driver.Record, err error) (driver.Record, error) {
	p.Metrics.Claim(p.Name(), metrics.CallPrepare, reasonOf(err))
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
			return driver.Record{}, withReason(reasonRuntime, fmt.Errorf("prepare claim %s for %s: %w", c.ClaimRef, p.Name(), err))
		}
	}
	start := time.Now()
	unlock, err := p.Lock(ctx, c.UID)
	if err != nil {
		return driver.Record{}, withReason(metrics.StepLock, err)
	}
	defer unlock()
	p.Metrics.Prepared(p.Name(), metrics.StepLock, start)
	planning := time.Now()
	r, err := p.record(ctx, c)
	if err != nil {
		return driver.Record{}, withReason(metrics.StepPlan, err)
	}
	p.Metrics.Prepared(p.Name(), metrics.StepPlan, planning)
	confining := time.Now()
	if err := p.confine(ctx); err != nil {
		return driver.Record{}, withReason(metrics.StepConfine, fmt.Errorf("prepare claim %s: other containers still run where it does: %w", c.ClaimRef, err))
	}
	p.ReportStep(StepConfined)
	p.Metrics.Prepared(p.Name(), metrics.StepConfine, confining)
	staging := time.Now()
	if r, err = p.stage(ctx, r); err != nil {
		return driver.Record{}, withReason(metrics.StepStage, err)
	}
	p.Metrics.Prepared(p.Name(), metrics.StepStage, staging)
	writing := time.Now()
	if err := p.describe(c, r); err != nil {
		return driver.Record{}, withReason(metrics.StepCDI, err)
	}
	if err := p.writeSpec(r); err != nil {
		return driver.Record{}, withReason(metrics.StepCDI, err)
	}
	p.ReportStep(StepSpecWritten)
	p.Metrics.Prepared(p.Name(), metrics.StepCDI, writing)
	p.Metrics.Prepared(p.Name(), metrics.StepTotal, start)
	p.Changed()
	return r, nil
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
