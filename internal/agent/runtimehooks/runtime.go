// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/metrics"
)

// Runtime is the container runtime as the agent sees it.
type Runtime struct {
	link       *link
	state      *runtimestate.State
	namespaces *namespaces
	repins     chan struct{}
	repairs    work
	renewals   work

	mu      sync.Mutex
	serving *hooks // nil before Serve
}

// New is a runtime that listens on socket. Nothing is connected before Serve.
func New(socket string) *Runtime {
	s := &runtimestate.State{}
	return &Runtime{
		link: newLink(socket), state: s, namespaces: newNamespaces(s.Sandbox), repins: make(chan struct{}, 1),
		repairs: newWork(), renewals: newWork(),
	}
}

// Ready says why hooks do not reach the agent, or nil.
func (r *Runtime) Ready() error { return r.link.ready() }

// Joined is closed once the runtime has said for the first time what it runs.
func (r *Runtime) Joined() <-chan struct{} { return r.link.joined }

// Namespaces are those that devices were attached into.
func (r *Runtime) Namespaces() claims.Namespaces { return r.namespaces }

// Observe sets the observer of held namespaces. It comes before Serve.
func (r *Runtime) Observe(o Observer) { r.namespaces.observer = o }

// FindNetns sets what finds the network namespace of a process, for sandboxes of which
// the runtime has lost it. It comes before Serve.
func (r *Runtime) FindNetns(find func(pid uint32) string) { r.state.FindNetns = find }

// Runs says whether the runtime has a sandbox of the pod that has not stopped.
func (r *Runtime) Runs(pod types.UID) bool { return r.state.Runs(pod) }

// Options are what Serve works with.
type Options struct {
	Preparers []*claims.Preparer
	Pods      kube.Pods
	// Events are written for pods that are refused; nil writes none.
	Events *kube.Events
	// Metrics counts; nil counts nothing.
	Metrics *metrics.Metrics
	// Placer writes containers' control groups; nil where the agent cannot reach
	// them, and the runtime has to.
	Placer *pinning.Placer
}

// Serve connects, answers hooks, repairs what it finds wrong, and moves
// containers that are not where they belong, until ctx ends.
func (r *Runtime) Serve(ctx context.Context, o Options) {
	h := r.hooks(o)
	r.mu.Lock()
	r.serving = h
	r.mu.Unlock()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.runRepins(ctx, h) })
	group.Go(func() { h.runRepairs(ctx, r.repairs) })
	group.Go(func() { h.runRenewals(ctx, r.renewals) })
	group.Go(func() { h.watchGone(ctx) })
	r.link.run(ctx, h)
}

// Close lets go of every namespace, when no hook or repair is in flight any more.
func (r *Runtime) Close() { r.namespaces.closeAll() }

func (r *Runtime) hooks(o Options) *hooks {
	h := &hooks{
		preparers: o.Preparers, state: r.state, pods: o.Pods, namespaces: r.namespaces, events: o.Events, metrics: o.Metrics,
		retry: func(key recordKey) { r.repairs.AddRateLimited(key) }, renew: func(key recordKey) { r.renewals.Add(key) },
		deadline: r.link.deadline, begin: r.link.begin,
	}
	h.pins = pinning.NewReconciler(pinning.Options{
		Preparers: o.Preparers, State: r.state, Pods: &h.pods, Runtime: r, Placer: o.Placer, Events: o.Events, Metrics: o.Metrics,
	})
	return h
}

// Confine has every container leave CPUs that a claim holds, and take those that
// none holds any more. On an error one may still be where it was.
func (r *Runtime) Confine(ctx context.Context) error {
	r.mu.Lock()
	h := r.serving
	r.mu.Unlock()
	if h == nil {
		return nil // nothing is known to run; the first connection places everything
	}
	return h.pins.Settle(ctx, false)
}

// UpdateContainers has the runtime move containers; never from within a hook.
func (r *Runtime) UpdateContainers(updates []*api.ContainerUpdate) error {
	return r.link.update(updates)
}

// lookEvery is how often containers' groups are compared with where they belong,
// without an event.
const lookEvery = 5 * time.Second

// Repin asks for a look at where containers run. It never waits, so a hook may
// call it.
func (r *Runtime) Repin() {
	select {
	case r.repins <- struct{}{}:
	default: // one is asked for already
	}
}

// runRepins moves containers that are not where they belong, outside of hooks:
// on Repin, and every few seconds by what their control groups say.
func (r *Runtime) runRepins(ctx context.Context, h *hooks) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		look := false
		select {
		case <-ctx.Done():
			return
		case <-r.repins:
		case <-tick.C:
			look = true
		}
		if r.link.ready() != nil && !look {
			continue // the next connection begins by placing everything
		}
		if err := h.pins.Settle(ctx, look); err != nil {
			klog.FromContext(ctx).Error(err, "will be tried again")
			time.AfterFunc(time.Second, r.Repin)
		}
	}
}
