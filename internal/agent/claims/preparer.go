// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

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
	// Netns is a pod's network namespace as a path; empty when there is none.
	Netns func(types.UID) string
	// Status tells the claim's readers.
	Status func(driverName string, claim driver.ClaimRef, devices []status.DeviceState)
	// Changed is called after a record came or went.
	Changed func()
}

// Prepare makes a claim ready to be used. Asked again, it answers the same.
func (p *Preparer) Prepare(ctx context.Context, c driver.Claim) (driver.Record, error) {
	r, err := p.tryPrepare(ctx, c)
	if err != nil {
		p.Status(p.Name(), c.ClaimRef, refusedStates(c, err))
		return driver.Record{}, err
	}
	if p.Attacher == nil { // a device for the namespace is not ready before it is there
		p.Status(p.Name(), c.ClaimRef, status.States(r, "Prepared", nil))
	}
	return r, nil
}

func (p *Preparer) tryPrepare(ctx context.Context, c driver.Claim) (driver.Record, error) {
	if p.NeedsRuntime() {
		if err := p.RuntimeReady(); err != nil {
			return driver.Record{}, fmt.Errorf("prepare claim %s for %s: %w", c.ClaimRef, p.Name(), err)
		}
	}
	unlock, err := p.Journal.LockClaim(ctx, p.Name(), c.UID)
	if err != nil {
		return driver.Record{}, err
	}
	defer unlock()
	r, err := p.record(ctx, c)
	if err != nil {
		return driver.Record{}, err
	}
	if err := p.CDI.Write(r); err != nil {
		return driver.Record{}, err
	}
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
		if err := p.detach(ctx, known); err != nil {
			return driver.Record{}, err
		}
	}
	return p.plan(ctx, c)
}

// plan decides under the driver's allocation lock: what is read as taken must
// still be taken when the decision is journaled.
func (p *Preparer) plan(ctx context.Context, c driver.Claim) (driver.Record, error) {
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
	r, err := p.Plan(c, p.Machine(), held)
	if err != nil {
		return driver.Record{}, err
	}
	r.BootID = p.BootID
	return r, p.Journal.Put(r)
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
		return p.CDI.Remove(p.Name(), claim.UID)
	case err != nil && p.Attacher != nil:
		return fmt.Errorf("unprepare claim %s: the record that says how to bring its devices back cannot be read: %w", claim, err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "dropping an unreadable record", "driver", p.Name(), "claim", claim.String())
	default:
		if err := p.detach(ctx, r); err != nil {
			return err
		}
	}
	if err := p.CDI.Remove(p.Name(), claim.UID); err != nil {
		return err
	}
	// Last, so that an interrupted unprepare is found and repeated.
	if err := p.Journal.Delete(p.Name(), claim.UID); err != nil {
		return err
	}
	p.Status(p.Name(), claim, nil)
	p.Changed()
	return nil
}

// detach brings the record's devices back from wherever its pods have them.
// After a reboot the kernel has done so itself.
func (p *Preparer) detach(ctx context.Context, r driver.Record) error {
	if p.Attacher == nil || r.BootID != p.BootID {
		return nil
	}
	path := ""
	for _, pod := range r.Pods {
		if found := p.Netns(pod.UID); found != "" {
			path = found
		}
	}
	if err := p.Attacher.Detach(ctx, r, path); err != nil {
		return fmt.Errorf("detach claim %s: %w", r.Claim, err)
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
		if err := p.CDI.Write(r); err != nil {
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

func refusedStates(c driver.Claim, err error) []status.DeviceState {
	var all []status.DeviceState
	for _, a := range c.Devices {
		s := status.DeviceState{Pool: a.Pool, Device: a.Device, Reason: "PrepareFailed", Err: err}
		if a.ShareID != nil {
			s.ShareID = string(*a.ShareID)
		}
		all = append(all, s)
	}
	return all
}
