// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
)

// Loop writes ResourceSlices when the machine, the claims or the faults change. MergedMachine, Scans and Held have to be set.
type Loop struct {
	MergedMachine *MergedMachine
	Publishers    []*Publisher
	// Registered are further publishers, as they come. One takes the place of another
	// of its driver; one without a Helper ends it, and the loop uses that no more once
	// it took this one.
	Registered <-chan *Publisher
	// Scans are those of inventory.Watch; their end is the loop's.
	Scans <-chan inventory.Snapshot
	// Held lists the NICs of all records.
	Held func(context.Context) ([]model.NIC, error)
	// HeldChanged has a value when Held lists others than before.
	HeldChanged <-chan struct{}
	// Described has a value when MergedMachine.Describe says something new.
	Described <-chan struct{}
	// HostChecked has a value when MergedMachine.Describe or Faults says something new
	// because of the host's checks.
	HostChecked <-chan struct{}
	// Faults are those of devices by name; FaultsChanged has a value when there
	// are others.
	Faults        func() map[string][]model.Fault
	FaultsChanged <-chan struct{}
	// Scanned gets the newest scan and the NICs of all records.
	Scanned func(scan *model.Machine, held []model.NIC)
	// Taken is called after every new merge.
	Taken func()
}

// Take merges a scan.
func (l *Loop) Take(ctx context.Context, scan inventory.Snapshot) error {
	if scan.Err != nil {
		return scan.Err
	}
	for _, p := range scan.Problems {
		klog.FromContext(ctx).Info("left out of the inventory", "what", p.String())
	}
	held, err := l.Held(ctx)
	if err != nil {
		return err
	}
	if err := l.MergedMachine.Update(scan.Machine, held); err != nil {
		return err
	}
	l.taken(held)
	return nil
}

func (l *Loop) taken(held []model.NIC) {
	if l.Scanned != nil {
		l.Scanned(l.MergedMachine.Scan(), held)
	}
	if l.Taken != nil {
		l.Taken()
	}
}

// Publish writes the merged machine, and returns when to come again, like All.
func (l *Loop) Publish(ctx context.Context) time.Duration {
	var faults map[string][]model.Fault
	if l.Faults != nil {
		faults = l.Faults()
	}
	return All(ctx, l.Publishers, l.MergedMachine.Current(), faults)
}

// Run publishes until the scans end, after the first scan.
func (l *Loop) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(l.wait(l.Publish(ctx)))
		err := l.next(ctx, timer.C)
		timer.Stop()
		switch {
		case errors.Is(err, errEnd):
			return
		case err != nil:
			klog.FromContext(ctx).Error(err, "the last scan of the machine stays true")
		}
	}
}

// idle is how long the loop sleeps when nothing waits.
const idle = time.Hour

// wait is until something that waits may be written, or a NIC that came back has
// had its time.
func (l *Loop) wait(again time.Duration) time.Duration {
	wait := idle
	if again > 0 {
		wait = again
	}
	if due := l.MergedMachine.Due(); !due.IsZero() {
		wait = min(wait, max(0, time.Until(due)))
	}
	return wait
}

var errEnd = errors.New("the scans ended")

// next merges the next change.
func (l *Loop) next(ctx context.Context, timer <-chan time.Time) error {
	select {
	case scan, more := <-l.Scans:
		if !more {
			return errEnd
		}
		return l.Take(ctx, scan)
	case <-l.HeldChanged:
		return l.remerge(ctx)
	case <-timer:
		return l.remerge(ctx)
	case <-l.Described:
		l.MergedMachine.Redescribe()
	case <-l.HostChecked:
		l.MergedMachine.Redescribe()
	case <-l.FaultsChanged:
	case p := <-l.Registered:
		l.replace(p)
	}
	return nil
}

func (l *Loop) replace(p *Publisher) {
	l.Publishers = slices.DeleteFunc(l.Publishers, func(o *Publisher) bool { return o.Driver == p.Driver })
	if p.Helper != nil {
		l.Publishers = append(l.Publishers, p)
	}
}

func (l *Loop) remerge(ctx context.Context) error {
	held, err := l.Held(ctx)
	if err != nil {
		return err
	}
	if err := l.MergedMachine.Remerge(held); err != nil {
		return err
	}
	l.taken(held)
	return nil
}
