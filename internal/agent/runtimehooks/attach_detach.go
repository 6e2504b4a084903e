// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
)

// workAtMost is how long work goes on that a hook could not wait for.
const workAtMost = time.Minute

// bounded answers within ctx, because the runtime drops a plugin that is late
// and lets the pod run without it. The work goes on: the next try finds it done,
// or waits for it on the claim's lock.
func bounded(ctx context.Context, what string, work func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workAtMost)
		defer cancel()
		done <- work(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: not done within the container runtime's limit for a hook, and goes on: %w", what, ctx.Err())
	}
}

// attach brings a record's devices into a sandbox's namespace. It is also the
// repair: what is in place stays. repairing says that the pod may run already, so
// that what it lacked goes into the claim's status.
func (h *hooks) attach(ctx context.Context, r driver.Record, sandbox runtimestate.Sandbox, repairing bool) error {
	p := h.preparerOf(r.Driver)
	r, unlock, err := h.lockCurrent(ctx, p, r)
	if err != nil {
		if !errors.Is(err, errSuperseded) {
			p.Status(status.Of(r, status.AttachFailed, err))
		}
		return err
	}
	defer unlock()
	if h.outlived(r, sandbox) {
		return fmt.Errorf("claim %s of %s: pod %s: %w", r.Claim, r.Driver, sandbox, errOutlived)
	}
	start := time.Now()
	report, repaired, err := h.attachLocked(ctx, p, r, sandbox, repairing)
	p.Metrics.Attached(r.Driver, start, err)
	if repaired || err != nil && repairing {
		p.Metrics.Repaired(r.Driver, err)
	}
	if err != nil {
		report = status.Of(r, status.AttachFailed, err)
	}
	p.Status(report)
	if err == nil && p.Renewer != nil {
		h.renew(keyOf(r))
	}
	return err
}

func (h *hooks) attachLocked(ctx context.Context, p *claims.Preparer, r driver.Record, sandbox runtimestate.Sandbox, repairing bool) (status.Report, bool, error) {
	held, elsewhere, err := h.namespaces.hold(r, sandbox)
	if err == nil && elsewhere {
		// The pod has a new sandbox, and no hook came for the end of the old one.
		if !h.follow(r, held, sandbox) {
			err = h.bringBack(ctx, p, r, held.path)
		}
		if err == nil || driver.OnlyGone(err) {
			held, _, err = h.namespaces.hold(r, sandbox)
		}
	}
	if err != nil {
		return status.Report{}, false, err
	}
	var lacked []string
	if repairing && p.Missing != nil {
		if lacked, err = p.Missing(r, held.path); err != nil {
			klog.FromContext(ctx).Error(err, "not known whether the pod lacks its devices", "driver", r.Driver, "claim", r.Claim.String())
		}
	}
	found, err := p.Attacher.Attach(ctx, r, held.path)
	if err != nil {
		return status.Report{}, false, err
	}
	p.ReportStep(claims.StepAttached)
	if err := p.DescribeAttached(r, found); err != nil {
		// The pod has what it was given; it reads of it what was known before.
		klog.FromContext(ctx).Error(err, "containers are not told all of their devices", "driver", r.Driver, "claim", r.Claim.String())
	}
	if len(lacked) == 0 {
		return status.OfAttached(r, status.Attached, "", found), false, nil
	}
	note := fmt.Sprintf("put right at %s: %s, since the container runtime started the pod while no agent was there to be asked",
		time.Now().UTC().Format(time.RFC3339), strings.Join(lacked, "; "))
	klog.FromContext(ctx).Info("repaired", "driver", r.Driver, "claim", r.Claim.String(), "what", note)
	return status.OfAttached(r, status.Repaired, note, found), true, nil
}

// errOutlived says that a hook's work came too late for the sandbox it was for.
var errOutlived = errors.New("the sandbox has ended meanwhile, and the claim is another one's")

// outlived says whether a record has gone on to another sandbox than the one that
// somebody wants it in: the work of a hook may outlive the hook and the sandbox.
// The claim is locked.
func (h *hooks) outlived(r driver.Record, sandbox runtimestate.Sandbox) bool {
	if !podclaims.Holds(r, sandbox.UID) {
		return true
	}
	held, ok := h.namespaces.get(keyOf(r))
	return ok && held.sandbox != sandbox.ID && h.state.Lives(held.sandbox) && !h.state.HasSandbox(sandbox.ID)
}

// detach brings a record's devices back to the host, when a sandbox has stopped or,
// with no ID, when none of its pods has one. It does nothing where they are in
// another sandbox by the time the claim is locked; back says whether they are there.
func (h *hooks) detach(ctx context.Context, r driver.Record, stopped runtimestate.Sandbox) (back bool, err error) {
	p := h.preparerOf(r.Driver)
	r, unlock, err := h.lockCurrent(ctx, p, r)
	if errors.Is(err, errSuperseded) {
		return false, nil // whoever took the record away brought the devices back
	}
	if err == nil {
		defer unlock()
		path, elsewhere := h.leaving(r, stopped)
		if elsewhere {
			return false, nil
		}
		err = h.bringBack(ctx, p, r, path)
	}
	if err != nil {
		p.Status(status.Of(r, status.RestoreFailed, err))
	}
	if driver.OnlyGone(err) {
		return false, nil // its status says so; another try would find no more
	}
	return err == nil, err
}

// leaving is a path to where a record's devices come back from; empty where there
// is no namespace any more. elsewhere says that they are, or belong, in a sandbox
// other than the one that has stopped. The claim is locked.
func (h *hooks) leaving(r driver.Record, stopped runtimestate.Sandbox) (path string, elsewhere bool) {
	held, ok := h.namespaces.get(keyOf(r))
	now, lives := h.namespaces.ofPods(r.Pods)
	switch {
	case ok && lives && h.follow(r, held, now):
		h.retry(keyOf(r)) // to hold where they are
		return "", true
	case ok:
		return held.path, h.state.Lives(held.sandbox) || stopped.ID != "" && held.sandbox != stopped.ID
	case lives:
		h.retry(keyOf(r)) // an agent before this one may have left them anywhere
		return "", true
	}
	if stopped.Netns == "" {
		return "", false
	}
	// Held, in case it takes several tries; nothing is to be done where the
	// namespace is gone already.
	held, _, _ = h.namespaces.hold(r, stopped)
	return held.path, false
}

// follow lets go of a namespace when another agent has brought the record's devices
// from there to the sandbox: during an upgrade there are two, and each gets the hooks.
// It says whether it did. The claim is locked.
func (h *hooks) follow(r driver.Record, held namespace, to runtimestate.Sandbox) bool {
	p := h.preparerOf(r.Driver)
	if p.Missing == nil || held.sandbox == to.ID {
		return false
	}
	left, err := p.Missing(r, held.path)
	if err != nil || len(left) == 0 {
		return false
	}
	if lacked, err := p.Missing(r, to.Netns); err != nil || len(lacked) > 0 {
		return false
	}
	h.namespaces.Drop(r)
	return true
}

// bringBack works with the claim locked. What has gone is no reason to hold the
// namespace.
func (h *hooks) bringBack(ctx context.Context, p *claims.Preparer, r driver.Record, path string) error {
	start := time.Now()
	err := p.Attacher.Detach(ctx, r, path)
	p.Metrics.Detached(r.Driver, start, err)
	p.Metrics.Restored(r.Driver, err)
	if err != nil && !driver.OnlyGone(err) {
		return err
	}
	p.ReportStep(claims.StepDetached)
	h.namespaces.Drop(r)
	return err
}

func (h *hooks) preparerOf(driverName string) *claims.Preparer {
	for _, p := range h.preparers {
		if p.Name() == driverName {
			return p
		}
	}
	return nil
}

// errSuperseded says that a record read before the claim was locked is no
// longer the journal's.
var errSuperseded = errors.New("the claim was unprepared or prepared anew meanwhile")

// lockCurrent locks the record's claim and returns the record as the journal has
// it now, which must be of the same devices. A hook's work may outlive the hook:
// without this a late attach could take a NIC of which no record is left.
func (h *hooks) lockCurrent(ctx context.Context, p *claims.Preparer, r driver.Record) (now driver.Record, unlock func(), err error) {
	unlock, err = p.Lock(ctx, r.Claim.UID)
	if err != nil {
		return r, nil, err
	}
	now, err = p.Journal.Get(r.Driver, r.Claim.UID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !sameDevices(now, r) {
		err = fmt.Errorf("claim %s of %s: %w", r.Claim, r.Driver, errSuperseded)
	}
	if err != nil {
		unlock()
		return r, nil, err
	}
	return now, unlock, nil
}

func sameDevices(a, b driver.Record) bool {
	return a.BootID == b.BootID && slices.EqualFunc(a.Devices, b.Devices, func(x, y driver.DeviceRecord) bool {
		return x.Request == y.Request && x.Pool == y.Pool && x.Device == y.Device && x.ShareID == y.ShareID
	})
}
