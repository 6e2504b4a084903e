// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
)

const (
	retryFirst  = 100 * time.Millisecond
	retryAtMost = 30 * time.Second
	// lookForGone is how often held namespaces are compared with what the
	// runtime has: one open per namespace.
	lookForGone = time.Second
	// repairers is how many records are repaired at a time.
	repairers = 4
)

// work is a queue of records to look at: with back-off after a failure, for
// ever.
type work = workqueue.TypedRateLimitingInterface[recordKey]

func newWork() work {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[recordKey](retryFirst, retryAtMost))
}

// Every connection begins here: what the runtime runs is compared with the
// journal, and the difference repaired, since pods may have come and gone while
// no agent was there. It never fails as a whole: the runtime would drop the
// plugin over one bad pod.
func (h *hooks) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	synced := h.begin()
	h.state.Reset(pods, containers)
	h.pins.Keep(pods, containers)
	// First what is quick: the repairs use up the time that is left.
	updates := h.pins.PlaceAll(ctx)
	records := h.readable(ctx)
	err := bounded(ctx, "repair claims", func(ctx context.Context) error {
		h.repairAll(ctx, records)
		return nil
	})
	if err != nil {
		klog.FromContext(ctx).Info("repairs take longer", "reason", err.Error())
	}
	klog.FromContext(ctx).Info("synchronised with the container runtime", "pods", len(pods), "containers", len(containers), "movedByIt", len(updates))
	synced()
	h.metrics.Joined()
	return updates, nil
}

// repairAll tries every record once, several at a time. What fails is tried
// again later.
func (h *hooks) repairAll(ctx context.Context, records []driver.Record) {
	var group sync.WaitGroup
	free := make(chan struct{}, repairers)
	for _, r := range records {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			if err := h.repair(ctx, r); err != nil {
				klog.FromContext(ctx).Error(err, "claim not repaired, will be tried again", "driver", r.Driver, "claim", r.Claim.String())
				h.retry(keyOf(r))
			}
		})
	}
	group.Wait()
}

// repair attaches the record's devices where a pod of it lives, and brings them
// back to the host where none does any more.
func (h *hooks) repair(ctx context.Context, r driver.Record) error {
	if sandbox, lives := h.namespaces.ofPods(r.Pods); lives {
		err := h.attach(ctx, r, sandbox, true)
		if errors.Is(err, errSuperseded) {
			return nil
		}
		return err
	}
	_, err := h.detach(ctx, r, runtimestate.Sandbox{})
	return err
}

// runRepairs repairs the records of the queue, until ctx ends.
func (h *hooks) runRepairs(ctx context.Context, q work) {
	var group sync.WaitGroup
	for range repairers {
		group.Go(func() { each(ctx, q, h.repairNow) })
	}
	group.Wait()
}

// each hands a queue's records to fn; a failed one comes again.
func each(ctx context.Context, q work, fn func(context.Context, recordKey) error) {
	defer context.AfterFunc(ctx, q.ShutDown)()
	for {
		key, shutdown := q.Get()
		if shutdown {
			return
		}
		if err := fn(ctx, key); err != nil {
			klog.FromContext(ctx).Error(err, "will be tried again", "driver", key.driver, "claimUID", key.claim)
			q.AddRateLimited(key)
		} else {
			q.Forget(key)
		}
		q.Done(key)
	}
}

func (h *hooks) repairNow(ctx context.Context, key recordKey) error {
	p := h.preparerOf(key.driver)
	r, err := p.Journal.Get(key.driver, key.claim)
	if errors.Is(err, fs.ErrNotExist) || err == nil && r.BootID != p.BootID {
		return nil // unprepared meanwhile
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, workAtMost)
	defer cancel()
	if _, lives := h.namespaces.ofPods(r.Pods); lives {
		return h.repair(ctx, r)
	}
	back, err := h.detach(ctx, r, runtimestate.Sandbox{})
	if err != nil || !back {
		return err
	}
	report := status.Of(r, status.Restored, nil)
	for i := range report.Devices {
		report.Devices[i].Note = "the pod's network namespace is gone, and the device is back on the host as it was"
	}
	p.Status(report)
	return nil
}

// watchGone notices namespaces that the runtime has removed without a hook, and
// has their devices brought back.
func (h *hooks) watchGone(ctx context.Context) {
	tick := time.NewTicker(lookForGone)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, key := range h.namespaces.gone() {
				h.retry(key)
			}
		}
	}
}

// runRenewals keeps what records were given for a time, until ctx ends.
func (h *hooks) runRenewals(ctx context.Context, q work) {
	each(ctx, q, func(ctx context.Context, key recordKey) error {
		next, err := h.renewNow(ctx, key)
		if err == nil && !next.IsZero() {
			q.AddAfter(key, time.Until(next))
		}
		return err
	})
}

// renewNow renews what is due, and says when to come again; zero is never.
func (h *hooks) renewNow(ctx context.Context, key recordKey) (time.Time, error) {
	p := h.preparerOf(key.driver)
	ctx, cancel := context.WithTimeout(ctx, workAtMost)
	defer cancel()
	unlock, err := p.Lock(ctx, key.claim)
	if err != nil {
		return time.Time{}, err
	}
	defer unlock()
	held, ok := h.namespaces.get(key)
	if !ok {
		return time.Time{}, nil // nobody uses it; Unstage gives it back
	}
	r, err := p.Journal.Get(key.driver, key.claim)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	renewed, next, err := p.Renewer.Renew(ctx, r, held.path)
	if err != nil {
		p.Status(status.Of(r, status.RenewFailed, err))
	}
	// Also beside an error: what one of several devices was given is its own.
	if !reflect.DeepEqual(renewed, r) {
		if failed := p.Journal.Put(renewed); failed != nil {
			return time.Time{}, errors.Join(err, failed)
		}
		h.retry(key) // the pod may have other addresses, and its claim says which
	}
	return next, err
}
