// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"

	"github.com/containerd/nri/pkg/api"

	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/metrics"
)

// runningOf is a container with its sandbox, as a hook is told of them.
func (h *hooks) runningOf(pod *api.PodSandbox, container *api.Container) runtimestate.Running {
	return runtimestate.Running{Sandbox: h.state.SandboxOf(pod), Container: runtimestate.ContainerOf(container)}
}

// StartContainer makes sure of the container's CPUs before its first process runs. A
// holder that is not on its CPUs does not start.
func (h *hooks) StartContainer(ctx context.Context, pod *api.PodSandbox, container *api.Container) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	c := h.runningOf(pod, container)
	h.state.SetContainer(c)
	if err := h.pins.Start(ctx, c); err != nil {
		return h.refuse(c.Sandbox, metrics.HookStartContainer, err)
	}
	return nil
}

// UpdateContainer keeps an update of other resources from moving the container.
func (h *hooks) UpdateContainer(ctx context.Context, pod *api.PodSandbox, container *api.Container, requested *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	if u := h.pins.Update(ctx, h.runningOf(pod, container), requested); u != nil {
		return []*api.ContainerUpdate{u}, nil
	}
	return nil, nil
}

// PostUpdateContainer looks at what the update left.
func (h *hooks) PostUpdateContainer(ctx context.Context, pod *api.PodSandbox, container *api.Container) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	h.pins.Updated(ctx, h.runningOf(pod, container))
	return nil
}

// RemoveContainer forgets the container.
func (h *hooks) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	h.state.RemoveContainer(container.GetId())
	h.pins.Forget(container.GetId())
	return nil
}
