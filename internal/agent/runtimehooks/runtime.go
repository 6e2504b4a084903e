// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/nodepods"
)

// Runtime is the container runtime as the agent sees it.
type Runtime struct {
	link   *link
	state  *state
	repins chan struct{}
}

// New is a runtime that listens on socket. Nothing is connected before Serve.
func New(socket string) *Runtime {
	return &Runtime{link: newLink(socket), state: &state{}, repins: make(chan struct{}, 1)}
}

// Ready says why hooks do not reach the agent, or nil.
func (r *Runtime) Ready() error { return r.link.ready() }

// Joined is closed once the runtime has said for the first time what it runs.
func (r *Runtime) Joined() <-chan struct{} { return r.link.joined }

// Netns is the network namespace of a pod that still exists, or empty.
func (r *Runtime) Netns(pod types.UID) string { return r.state.netns(pod) }

// Serve connects, answers hooks, and moves containers that are not where they
// belong, until ctx ends.
func (r *Runtime) Serve(ctx context.Context, preparers []*claims.Preparer, pods nodepods.Pods) {
	h := &hooks{
		preparers: preparers, state: r.state, pods: pods, deadline: r.link.deadline, repin: r.Repin, begin: r.link.begin,
	}
	go r.runRepins(ctx, h)
	r.link.run(ctx, h)
}

// Repin asks for a look at where containers run. It never waits, so a hook may
// call it.
func (r *Runtime) Repin() {
	select {
	case r.repins <- struct{}{}:
	default: // one is asked for already
	}
}

// runRepins moves containers that are not where they belong, outside of hooks.
func (r *Runtime) runRepins(ctx context.Context, h *hooks) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.repins:
		}
		if r.link.ready() != nil {
			continue // the next connection begins by placing everything
		}
		updates := h.updates(ctx)
		if len(updates) == 0 {
			continue
		}
		if err := r.link.update(updates); err != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("place containers: %w", err), "will be tried again")
			time.AfterFunc(time.Second, r.Repin)
			continue
		}
		h.moved(updates)
	}
}
