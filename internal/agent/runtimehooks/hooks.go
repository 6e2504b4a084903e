// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/metrics"
)

// podWait is how long a hook waits for the API watch to show a pod that the
// kubelet has already started.
const podWait = 500 * time.Millisecond

// hooks answers the container runtime. Each hook has less than the runtime's
// two seconds, so what is slow happens elsewhere; an error refuses the pod or
// container, and the kubelet tries again.
type hooks struct {
	preparers []*claims.Preparer
	state     *runtimestate.State
	pods      kube.Pods
	// namespaces are those that devices are in.
	namespaces *namespaces
	// retry asks for a record to be looked at again, outside of hooks.
	retry func(recordKey)
	// renew asks for what a record was given for a time to be renewed when due.
	renew func(recordKey)
	// events are written for pods that are refused; nil writes none.
	events *kube.Events
	// said are the notes that pods have events of.
	said notesSaid
	// metrics counts; nil counts nothing.
	metrics *metrics.Metrics
	// deadline bounds a hook below the runtime's own limit.
	deadline func(context.Context) (context.Context, context.CancelFunc)
	// begin is called at the start of Synchronize, and what it returns at its end.
	begin func() (synced func())
	// pins keeps containers on their CPUs.
	pins *pinning.Reconciler
}

// records are those of this boot, of all drivers that keep claims by hooks. An
// error says that there may be more, which cannot be read.
func (h *hooks) records(want func(*claims.Preparer) bool) ([]driver.Record, error) {
	var all []driver.Record
	var errs []error
	for _, p := range h.preparers {
		if !want(p) {
			continue
		}
		records, err := p.Records()
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, records...)
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

func attaches(p *claims.Preparer) bool { return p.Attacher != nil }

// moves says whether something of a record goes into its pod's namespace.
func (h *hooks) moves(r driver.Record) bool {
	p := h.preparerOf(r.Driver)
	return attaches(p) && p.Attacher.Moves(r)
}

// RunPodSandbox brings the pod's devices into its network namespace.
func (h *hooks) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	sandbox := h.state.SandboxOf(pod)
	h.state.AddSandbox(pod.GetId(), sandbox)
	if err := h.attachPod(ctx, sandbox, metrics.HookRunPodSandbox); err != nil {
		// Refused, it never runs, and not every runtime tells of its removal.
		h.state.RemoveSandbox(pod.GetId())
		return err
	}
	return nil
}

// attachPod attaches what the pod's claims hold, or refuses the pod.
func (h *hooks) attachPod(ctx context.Context, sandbox runtimestate.Sandbox, hook string) error {
	mine, err := h.admit(ctx, sandbox)
	if err != nil {
		return h.refuse(sandbox, hook, err)
	}
	return bounded(ctx, "attach the devices of pod "+sandbox.String(), func(ctx context.Context) error {
		for _, r := range mine {
			if sandbox.Netns == "" { // and nothing moves
				h.preparerOf(r.Driver).Status(status.Of(r, status.Prepared, nil))
				continue
			}
			if err := h.attach(ctx, r, sandbox, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// admit returns the records to attach, or why the pod must not run. What several
// pods can use at once is looked at too: a claim that is not this pod's gives it
// nothing.
func (h *hooks) admit(ctx context.Context, sandbox runtimestate.Sandbox) ([]driver.Record, error) {
	records, unreadable := h.records((*claims.Preparer).NeedsRuntime)
	facts := h.pods.Get(sandbox.UID)
	if facts == nil && podclaims.MustBeKnown(sandbox, records, unreadable != nil) {
		if facts = h.pods.Wait(ctx, sandbox.UID, podWait); facts == nil {
			return nil, fmt.Errorf("pod %s: the API server has not shown it within %s, and it may use a claim that another pod holds: "+
				"want the API server reachable from the node; the kubelet tries again", sandbox, podWait)
		}
	}
	if unreadable != nil && podclaims.MayBeUnreadable(sandbox, records, facts) {
		return nil, fmt.Errorf("pod %s: %w", sandbox, unreadable)
	}
	if err := h.handOver(ctx, sandbox, records, facts); err != nil {
		return nil, err
	}
	mine, err := podclaims.AdmitSandbox(sandbox, records, facts, h.moves)
	return slices.DeleteFunc(mine, func(r driver.Record) bool { return !attaches(h.preparerOf(r.Driver)) }), err
}

// refuse counts a refusal and writes the pod's event, with the error that the kubelet gets.
func (h *hooks) refuse(sandbox runtimestate.Sandbox, hook string, err error) error {
	h.metrics.Refused(hook)
	h.events.Pod(sandbox.Namespace, driver.PodRef{UID: sandbox.UID, Name: sandbox.Name}, true, status.Refused, err.Error())
	return err
}

// StopPodSandbox brings the devices back. What fails here Unprepare repeats,
// and the pod must not be kept from stopping.
func (h *hooks) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	sandbox := h.state.SandboxOf(pod)
	// Whoever repairs from now on must not bring anything into it again.
	h.state.RemoveSandbox(pod.GetId())
	mine := slices.DeleteFunc(h.readable(ctx), func(r driver.Record) bool { return !podclaims.Holds(r, sandbox.UID) })
	err := bounded(ctx, "bring back the devices of pod "+sandbox.String(), func(ctx context.Context) error {
		var errs []error
		for _, r := range mine {
			if _, err := h.detach(ctx, r, sandbox); err != nil {
				h.retry(keyOf(r))
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "devices not brought back yet", "pod", sandbox.String())
	}
	return nil
}

// RemovePodSandbox forgets the sandbox.
func (h *hooks) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	h.state.RemoveSandbox(pod.GetId())
	h.pins.ForgetPod(types.UID(pod.GetUid()))
	h.said.forget(types.UID(pod.GetUid()))
	return nil
}

// CreateContainer places the container, and gives it what the kubelet did not.
// It makes sure of the pod's devices first: the sandbox may have come up while
// the agent was away, or was too late to be heard.
func (h *hooks) CreateContainer(ctx context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	sandbox := h.state.SandboxOf(pod)
	sandbox.Admitted = h.state.HasSandbox(pod.GetId())
	if err := h.attachPod(ctx, sandbox, metrics.HookCreateContainer); err != nil {
		return nil, nil, err
	}
	records, unreadable := h.records((*claims.Preparer).NeedsRuntime)
	if unreadable != nil && podclaims.MayBeUnreadable(sandbox, records, h.pods.Get(sandbox.UID)) {
		err := fmt.Errorf("pod %s, container %s: %w", sandbox, container.GetName(), unreadable)
		return nil, nil, h.refuse(sandbox, metrics.HookCreateContainer, err)
	}
	lacks, err := h.lacks(ctx, runtimestate.Running{Sandbox: sandbox, Container: runtimestate.ContainerOf(container)}, container, records, podWait)
	if err != nil {
		return nil, nil, h.refuse(sandbox, metrics.HookCreateContainer, err)
	}
	h.say(ctx, sandbox, lacks.Edits.Notes)
	return adjustmentOf(lacks), nil, nil
}
