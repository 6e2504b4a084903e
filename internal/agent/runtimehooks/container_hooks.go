// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/metrics"
)

// StartContainer makes sure of the container's place once it has a control group
// and before its first process runs: a claim may have come since CreateContainer
// looked. A holder that is not on its CPUs does not start.
func (h *hooks) StartContainer(ctx context.Context, pod *api.PodSandbox, container *api.Container) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	c := runtimestate.Running{Sandbox: runtimestate.SandboxOf(pod), Container: runtimestate.ContainerOf(container)}
	h.state.SetContainer(c)
	h.warnUnmirrored(c)
	out := h.placeOne(ctx, c)
	if len(out.updates) == 0 {
		return nil
	}
	if f := out.Failed; len(f) > 0 && f[0].Container.Exclusive() {
		return h.refuse(c.Sandbox, metrics.HookStartContainer, firstFailure(out.Outcome))
	}
	h.repin() // by the runtime, which is asked outside of hooks
	return nil
}

// placeOne is a pass over one container, which reads its group. Where nobody can
// say where it belongs it stays, and is looked at again.
func (h *hooks) placeOne(ctx context.Context, c runtimestate.Running) placed {
	out, err := h.place(ctx, []runtimestate.Running{c}, true)
	if err != nil {
		klog.FromContext(ctx).Error(err, "will be looked at again", "pod", c.Sandbox.String(), "container", c.Container.Name)
		h.repin()
	}
	return out
}

// UpdateContainer keeps an update of other resources from moving the container:
// the runtime writes all that it remembers of the container, as it was when it
// was made.
func (h *hooks) UpdateContainer(ctx context.Context, pod *api.PodSandbox, container *api.Container, asked *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	s, err := h.newPlacement()
	if s.preparer == nil {
		return nil, nil
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "the container may be moved, and will be put back", "container", container.GetName())
		return nil, nil
	}
	cpu := asked.GetCpu()
	c := h.state.Known(runtimestate.Running{Sandbox: runtimestate.SandboxOf(pod), Container: runtimestate.ContainerOf(container)})
	if set, err := cpuset.Parse(cpu.GetCpus()); err == nil && !set.IsEmpty() && !set.Equals(s.pool) {
		c.Container.RequestedCPUs = set // by whoever asks
		h.state.SetContainer(c)
	}
	assignments := h.assignments(ctx, &s, []runtimestate.Running{c})
	if len(assignments) == 0 || assignments[0].Skip {
		return nil, nil
	}
	u := h.updateOf(&s, assignments[0])
	want := u.GetLinux().GetResources().GetCpu()
	switch free := pinning.Wanted(assignments[0], s.pool).CPUs.IsEmpty(); {
	case free && c.Container.CPUs == "":
		return nil, nil // nobody confines it, nor did when it was made
	case cpu.GetCpus() == want.GetCpus() && (want.GetMems() == "" || cpu.GetMems() == want.GetMems()):
		return nil, nil // whoever asks wants the same, or another agent has said so
	}
	u.IgnoreFailure = false
	return []*api.ContainerUpdate{u}, nil
}

// PostUpdateContainer looks at what the update left.
func (h *hooks) PostUpdateContainer(ctx context.Context, pod *api.PodSandbox, container *api.Container) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	c := h.state.Known(runtimestate.Running{Sandbox: runtimestate.SandboxOf(pod), Container: runtimestate.ContainerOf(container)})
	if out := h.placeOne(ctx, c); len(out.updates) > 0 {
		h.repin()
	}
	return nil
}
