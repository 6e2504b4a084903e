// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/nodepods"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
)

// podWait is how long a hook waits for the API watch to show a pod that the
// kubelet has already started.
const podWait = 500 * time.Millisecond

// hooks answers the container runtime. Each hook has less than the runtime's
// two seconds, so what is slow happens elsewhere; an error refuses the pod or
// container, and the kubelet tries again.
type hooks struct {
	preparers []*claims.Preparer
	state     *state
	pods      nodepods.Pods
	// deadline bounds a hook below the runtime's own limit.
	deadline func(context.Context) (context.Context, context.CancelFunc)
	// begin is called when the runtime starts to tell what it runs, and what it
	// returns when it has told everything.
	begin func() (synced func())
	// repin asks for a later look at shared containers, outside of hooks.
	repin func()
}

// records are those of this boot, of all drivers that keep claims by hooks. An
// error says that there may be more, which nobody can read.
func (h *hooks) records(want func(*claims.Preparer) bool) ([]driver.Record, error) {
	var all []driver.Record
	var errs []error
	for _, p := range h.preparers {
		if !want(p) {
			continue
		}
		records, problems, err := p.Journal.List(p.Name())
		if err := errors.Join(append([]error{err}, asErrors(problems)...)...); err != nil {
			errs = append(errs, fmt.Errorf("the journal of %s cannot be read, so nobody knows all that claims hold: %w", p.Name(), err))
		}
		for _, r := range records {
			if r.BootID == p.BootID {
				all = append(all, r)
			}
		}
	}
	return all, errors.Join(errs...)
}

// readable are the records that can be read, for work that must go on.
func (h *hooks) readable(ctx context.Context) []driver.Record {
	records, err := h.records(attaches)
	if err != nil {
		klog.FromContext(ctx).Error(err, "going on with the records that can be read")
	}
	return records
}

func asErrors[E error](list []E) []error {
	errs := make([]error, 0, len(list))
	for _, e := range list {
		errs = append(errs, e)
	}
	return errs
}

func attaches(p *claims.Preparer) bool { return p.Attacher != nil }

// RunPodSandbox brings the pod's devices into its network namespace.
func (h *hooks) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	sandbox := sandboxOf(pod)
	h.state.addSandbox(pod.GetId(), sandbox)
	if err := h.attachPod(ctx, sandbox); err != nil {
		// Refused, it never runs, and not every runtime tells of its removal.
		h.state.removeSandbox(pod.GetId())
		return err
	}
	return nil
}

// attachPod attaches what the pod's claims hold, or refuses the pod.
func (h *hooks) attachPod(ctx context.Context, sandbox sandboxFacts) error {
	facts := h.pods.Get(sandbox.UID)
	records, err := h.records(attaches)
	if err != nil && (facts == nil || len(facts.Claims) > 0) {
		return fmt.Errorf("pod %s: %w", sandbox, err) // it may lack a device that nobody remembers
	}
	mine, err := admitSandbox(sandbox, records, facts)
	if err != nil {
		return err
	}
	return bounded(ctx, "attach the devices of pod "+sandbox.String(), func(ctx context.Context) error {
		for _, r := range mine {
			if err := h.attach(ctx, r, sandbox.Netns); err != nil {
				return err
			}
		}
		return nil
	})
}

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

// attach is also the repair: what is in place stays.
func (h *hooks) attach(ctx context.Context, r driver.Record, netns string) error {
	p := h.preparerOf(r)
	unlock, err := h.lockCurrent(ctx, p, r)
	if err != nil {
		return err
	}
	defer unlock()
	start := time.Now()
	found, err := p.Attacher.Attach(ctx, r, netns)
	if took := time.Since(start); took > time.Second {
		klog.FromContext(ctx).Info("attaching took long", "driver", r.Driver, "claim", r.Claim.String(), "took", took)
	}
	if err != nil {
		p.Status(r.Driver, r.Claim, status.States(r, "AttachFailed", err))
		return err
	}
	p.Status(r.Driver, r.Claim, attachedStates(r, found))
	return nil
}

func attachedStates(r driver.Record, found []driver.DeviceStatus) []status.DeviceState {
	all := status.States(r, "Attached", nil)
	for i := range all {
		for j := range found {
			if found[j].Device == all[i].Device {
				all[i].Network = &found[j]
			}
		}
	}
	return all
}

func (h *hooks) preparerOf(r driver.Record) *claims.Preparer {
	for _, p := range h.preparers {
		if p.Name() == r.Driver {
			return p
		}
	}
	return nil
}

// StopPodSandbox brings the devices back. What fails here Unprepare repeats,
// and the pod must not be kept from stopping.
func (h *hooks) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	sandbox := sandboxOf(pod)
	mine := slices.DeleteFunc(h.readable(ctx), func(r driver.Record) bool { return !holds(r, sandbox.UID) })
	err := bounded(ctx, "bring back the devices of pod "+sandbox.String(), func(ctx context.Context) error {
		var errs []error
		for _, r := range mine {
			errs = append(errs, h.detach(ctx, r, sandbox.Netns))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "devices not brought back yet", "pod", sandbox.String())
	}
	return nil
}

func (h *hooks) detach(ctx context.Context, r driver.Record, netns string) error {
	p := h.preparerOf(r)
	unlock, err := h.lockCurrent(ctx, p, r)
	if errors.Is(err, errSuperseded) {
		return nil // whoever took the record away brought the devices back
	}
	if err != nil {
		return err
	}
	defer unlock()
	return p.Attacher.Detach(ctx, r, netns)
}

// errSuperseded says that a record read before the claim was locked is no
// longer the journal's.
var errSuperseded = errors.New("the claim was unprepared or prepared anew meanwhile")

// lockCurrent locks the record's claim and makes sure that the journal still
// says the same. A hook's work may outlive the hook: without this a late attach
// could take a NIC that nobody remembers.
func (h *hooks) lockCurrent(ctx context.Context, p *claims.Preparer, r driver.Record) (unlock func(), err error) {
	unlock, err = p.Journal.LockClaim(ctx, r.Driver, r.Claim.UID)
	if err != nil {
		return nil, err
	}
	now, err := p.Journal.Get(r.Driver, r.Claim.UID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !reflect.DeepEqual(now.Devices, r.Devices) {
		err = fmt.Errorf("claim %s of %s: %w", r.Claim, r.Driver, errSuperseded)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// RemovePodSandbox forgets the sandbox.
func (h *hooks) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	h.state.removeSandbox(pod.GetId())
	return nil
}

// CreateContainer places the container, and gives it what the kubelet did not.
// It makes sure of the pod's devices first: the sandbox may have come up while
// the agent was away, or was too late to be heard.
func (h *hooks) CreateContainer(ctx context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	sandbox := sandboxOf(pod)
	if err := h.attachPod(ctx, sandbox); err != nil {
		return nil, nil, err
	}
	records, err := h.records((*claims.Preparer).NeedsRuntime)
	if err != nil {
		return nil, nil, fmt.Errorf("pod %s, container %s: %w", sandbox, container.GetName(), err)
	}
	lacks, err := h.lacks(ctx, runningContainer{sandbox: sandbox, facts: containerOf(container)}, records, podWait)
	if err != nil {
		return nil, nil, err
	}
	if lacks.Confined {
		h.state.confine(container.GetId())
	}
	return adjustmentOf(lacks), nil, nil
}

// PostCreateContainer remembers the container, which from now on can be moved.
func (h *hooks) PostCreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	h.state.setContainer(runningContainer{sandbox: sandboxOf(pod), facts: containerOf(container)})
	h.repin() // a claim may have come since CreateContainer looked
	return nil
}

// RemoveContainer forgets the container.
func (h *hooks) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	h.state.removeContainer(container.GetId())
	return nil
}

// Every connection begins here: what the runtime runs is compared with the
// journal, and the difference repaired, since pods may have come and gone while
// no agent was there. It never fails as a whole: the runtime would drop the
// plugin over one bad pod.
func (h *hooks) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) { //nolint:misspell // the library calls it so
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	synced := h.begin()
	h.state.reset(pods, containers)
	// First what is quick: the repairs use up the time that is left.
	updates := h.updates(ctx)
	h.moved(updates)
	records := h.readable(ctx)
	err := bounded(ctx, "repair claims", func(ctx context.Context) error {
		for _, r := range records {
			if err := h.repair(ctx, r); err != nil {
				klog.FromContext(ctx).Error(err, "claim not repaired", "driver", r.Driver, "claim", r.Claim.String())
			}
		}
		return nil
	})
	if err != nil {
		klog.FromContext(ctx).Info("repairs take longer", "reason", err.Error())
	}
	klog.FromContext(ctx).Info("synchronised with the container runtime", "pods", len(pods), "containers", len(containers), "placed", len(updates))
	synced()
	return updates, nil
}

// repair attaches the record's devices where a pod of it lives, and brings them
// back to the host where none does any more.
func (h *hooks) repair(ctx context.Context, r driver.Record) error {
	if netns := h.netnsOf(r.Pods); netns != "" {
		return h.attach(ctx, r, netns)
	}
	return h.detach(ctx, r, "")
}

func (h *hooks) netnsOf(pods []driver.PodRef) string {
	for _, pod := range pods {
		if path := h.state.netns(pod.UID); path != "" {
			return path
		}
	}
	return ""
}
