// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// preparer prepares and unprepares claims of one driver. It keeps nothing in
// memory: another process may unprepare what this one prepared.
type preparer struct {
	servedDriver
	journal *journal.Journal
	cdi     *cdi.Dir
	bootID  string
	// machine is the newest picture of the host.
	machine func() *model.Machine
	// runtimeReady says why the container runtime cannot be reached, or nil.
	runtimeReady func() error
	// netns is a pod's network namespace as a path; empty when there is none.
	netns func(types.UID) string
	// status tells the claim's readers.
	status func(driverName string, claim driver.ClaimRef, devices []deviceState)
	// changed is called after a record came or went.
	changed func()
}

// prepare makes a claim ready to be used. Asked again, it answers the same.
func (p *preparer) prepare(ctx context.Context, c driver.Claim) (driver.Record, error) {
	r, err := p.tryPrepare(ctx, c)
	if err != nil {
		p.status(p.Name(), c.ClaimRef, refusedStates(c, err))
		return driver.Record{}, err
	}
	if p.attacher == nil { // a device for the namespace is not ready before it is there
		p.status(p.Name(), c.ClaimRef, states(r, "Prepared", nil))
	}
	return r, nil
}

func (p *preparer) tryPrepare(ctx context.Context, c driver.Claim) (driver.Record, error) {
	if p.needsRuntime() {
		if err := p.runtimeReady(); err != nil {
			return driver.Record{}, fmt.Errorf("prepare claim %s for %s: %w", c.ClaimRef, p.Name(), err)
		}
	}
	unlock, err := p.journal.LockClaim(ctx, p.Name(), c.UID)
	if err != nil {
		return driver.Record{}, err
	}
	defer unlock()
	r, err := p.record(ctx, c)
	if err != nil {
		return driver.Record{}, err
	}
	if err := p.cdi.Write(r); err != nil {
		return driver.Record{}, err
	}
	p.changed()
	return r, nil
}

// record returns the claim's journaled record, or plans and journals one. The
// claim is locked.
func (p *preparer) record(ctx context.Context, c driver.Claim) (driver.Record, error) {
	known, err := p.journal.Get(p.Name(), c.UID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return driver.Record{}, err
	case known.BootID == p.bootID && sameDevices(known, c):
		if slices.Equal(known.Pods, c.Pods) {
			return known, nil
		}
		known.Pods = c.Pods
		return known, p.journal.Put(known)
	case known.BootID == p.bootID:
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
func (p *preparer) plan(ctx context.Context, c driver.Claim) (driver.Record, error) {
	unlock, err := p.journal.LockAllocation(ctx, p.Name())
	if err != nil {
		return driver.Record{}, err
	}
	defer unlock()
	held, problems, err := p.journal.List(p.Name())
	if err != nil {
		return driver.Record{}, err
	}
	held = slices.DeleteFunc(held, func(r driver.Record) bool { return r.Claim.UID == c.UID })
	if len(problems) > 0 {
		// What an unreadable record holds must not be given away twice.
		return driver.Record{}, fmt.Errorf("prepare claim %s: a record in the journal cannot be read, so nobody knows which devices it holds: %w", c.ClaimRef, problems[0])
	}
	r, err := p.Plan(c, p.machine(), held)
	if err != nil {
		return driver.Record{}, err
	}
	r.BootID = p.bootID
	return r, p.journal.Put(r)
}

// unprepare undoes a claim by its UID alone; the claim may be deleted, and the
// process another one. It is no error when there is nothing to undo.
func (p *preparer) unprepare(ctx context.Context, claim driver.ClaimRef) error {
	unlock, err := p.journal.LockClaim(ctx, p.Name(), claim.UID)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := p.journal.Get(p.Name(), claim.UID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.cdi.Remove(p.Name(), claim.UID)
	case err != nil && p.attacher != nil:
		return fmt.Errorf("unprepare claim %s: the record that says how to bring its devices back cannot be read: %w", claim, err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "dropping an unreadable record", "driver", p.Name(), "claim", claim.String())
	default:
		if err := p.detach(ctx, r); err != nil {
			return err
		}
	}
	if err := p.cdi.Remove(p.Name(), claim.UID); err != nil {
		return err
	}
	// Last, so that an interrupted unprepare is found and repeated.
	if err := p.journal.Delete(p.Name(), claim.UID); err != nil {
		return err
	}
	p.status(p.Name(), claim, nil)
	p.changed()
	return nil
}

// detach brings the record's devices back from wherever its pods have them.
// After a reboot the kernel has done so itself.
func (p *preparer) detach(ctx context.Context, r driver.Record) error {
	if p.attacher == nil || r.BootID != p.bootID {
		return nil
	}
	path := ""
	for _, pod := range r.Pods {
		if found := p.netns(pod.UID); found != "" {
			path = found
		}
	}
	if err := p.attacher.Detach(ctx, r, path); err != nil {
		return fmt.Errorf("detach claim %s: %w", r.Claim, err)
	}
	return nil
}

// recover makes the CDI directory say what the journal says: a crash may have
// come between the two, and /run is empty after a reboot.
func (p *preparer) recover(ctx context.Context) error {
	records, problems, err := p.journal.List(p.Name())
	if err != nil {
		return err
	}
	for _, problem := range problems {
		klog.FromContext(ctx).Error(problem, "journal record cannot be read; no claim of this driver is prepared while it is there", "driver", p.Name())
	}
	known := map[types.UID]bool{}
	for _, r := range records {
		known[r.Claim.UID] = true
		if err := p.cdi.Write(r); err != nil {
			return err
		}
	}
	uids, err := p.cdi.Claims(p.Name())
	if err != nil {
		return err
	}
	for _, uid := range uids {
		if known[uid] || len(problems) > 0 {
			continue
		}
		if err := p.cdi.Remove(p.Name(), uid); err != nil {
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

func refusedStates(c driver.Claim, err error) []deviceState {
	var all []deviceState
	for _, a := range c.Devices {
		s := deviceState{pool: a.Pool, device: a.Device, reason: "PrepareFailed", err: err}
		if a.ShareID != nil {
			s.shareID = string(*a.ShareID)
		}
		all = append(all, s)
	}
	return all
}
