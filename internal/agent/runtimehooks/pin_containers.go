// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
)

// lookEvery is how often containers' groups are compared with where they belong,
// without an event.
const lookEvery = 5 * time.Second

// placed is what a pass did, and what is left for the runtime to do.
type placed struct {
	pinning.Outcome
	// updates are for containers whose groups this agent cannot write.
	updates []*api.ContainerUpdate
}

// place brings containers where they belong. look reads every group; otherwise
// those that have been put there before are taken to be. The driver's allocation
// is locked until every group is written: whoever reads the journal later writes
// later. An error says why every container stayed where it was.
func (h *hooks) place(ctx context.Context, only []runtimestate.Running, look bool) (placed, error) {
	p := h.pinner()
	if p == nil {
		return placed{}, nil
	}
	unlock, err := p.Journal.LockAllocation(ctx, p.Name())
	if err != nil {
		return placed{}, err
	}
	defer unlock()
	return h.placeLocked(ctx, only, look)
}

func (h *hooks) placeLocked(ctx context.Context, containers []runtimestate.Running, look bool) (placed, error) {
	s, err := h.newPlacement()
	if err != nil {
		return placed{}, fmt.Errorf("no container is moved: %w", err)
	}
	h.quarantine.tell(&s, false)
	assignments := h.assignments(ctx, &s, containers)
	var out placed
	if h.placer == nil {
		out.updates = h.updatesOf(&s, assignments, containers)
		return out, nil
	}
	if look && h.placer.Idle(assignments, s.pool) {
		return out, nil
	}
	out.Outcome = h.placer.Place(assignments, s.pool, look)
	h.report(ctx, out.Outcome)
	for _, f := range out.Failed {
		klog.FromContext(ctx).Error(f.Err, "the container runtime is asked instead", "container", f.Container.String())
		out.updates = append(out.updates, h.updateOf(&s, f.Container))
	}
	return out, nil
}

// report counts containers that another writer had moved, and writes their pods' events.
func (h *hooks) report(ctx context.Context, out pinning.Outcome) {
	h.metrics.Placed(out.Writes)
	h.metrics.Lifted(out.Lifted)
	for _, d := range out.Drifted {
		note := fmt.Sprintf("container %s was on %s, by whoever wrote its control group, and is on %s again", d.Container.Name, d.Found, d.Want)
		klog.FromContext(ctx).Info("put back", "container", d.Container.String(), "found", d.Found.String(), "now", d.Want.String())
		h.metrics.PutBack(d.Container.Exclusive())
		h.events.Pod(d.Container.Namespace, d.Container.Pod, true, status.PutBack, note)
	}
}

// updatesOf is a pass by the runtime alone: of the containers that it has
// elsewhere.
func (h *hooks) updatesOf(s *placement, assignments []pinning.Container, containers []runtimestate.Running) []*api.ContainerUpdate {
	has := make(map[string]runtimestate.Container, len(containers))
	for _, c := range containers {
		has[c.Container.ID] = c.Container
	}
	var updates []*api.ContainerUpdate
	for _, assigned := range assignments {
		if assigned.Skip {
			continue
		}
		u, have := h.updateOf(s, assigned), has[assigned.ID]
		cpu := u.GetLinux().GetResources().GetCpu()
		free := pinning.Wanted(assigned, s.pool).CPUs.IsEmpty()
		if free && have.CPUs == "" || cpu.GetCpus() == have.CPUs && (cpu.GetMems() == "" || cpu.GetMems() == have.Mems) {
			continue
		}
		updates = append(updates, u)
	}
	return updates
}

// updateOf puts a container's place into the runtime's words, which have none for
// a set that says nothing.
func (h *hooks) updateOf(s *placement, assigned pinning.Container) *api.ContainerUpdate {
	want := pinning.Wanted(assigned, s.pool)
	if want.CPUs.IsEmpty() {
		want.CPUs = onlineCPUs(s.preparer.Machine())
	}
	u := &api.ContainerUpdate{}
	u.SetContainerId(assigned.ID)
	u.SetLinuxCPUSetCPUs(want.CPUs.String())
	if !want.Mems.IsEmpty() {
		u.SetLinuxCPUSetMems(want.Mems.String())
	}
	u.SetIgnoreFailure() // a container that has just stopped is no reason to leave the others
	return u
}

// moved notes updates that the runtime has taken.
func (h *hooks) moved(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		cpu := u.GetLinux().GetResources().GetCpu()
		h.state.Placed(u.GetContainerId(), cpu.GetCpus(), cpu.GetMems())
	}
}

// byRuntime moves what a pass left, outside of locks and hooks: the runtime
// answers only when no hook is in flight, and a hook may wait for the lock.
func (h *hooks) byRuntime(updates []*api.ContainerUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	if err := h.update(updates); err != nil {
		return fmt.Errorf("place containers: %w", err)
	}
	h.moved(updates)
	return nil
}

// settle is a pass over all containers. When it returns without an error no
// container without that claim is left on CPUs that a claim holds.
func (h *hooks) settle(ctx context.Context, look bool) error {
	h.moving.Lock() // one update at a time, so that the last one sent has the newest placement
	defer h.moving.Unlock()
	out, err := h.place(ctx, h.state.Running(), look)
	if err != nil {
		return err
	}
	if err := h.byRuntime(out.updates); err != nil {
		return errors.Join(err, firstFailure(out.Outcome))
	}
	return nil
}

func (h *hooks) confine(ctx context.Context) error { return h.settle(ctx, false) }

// placeAll is a pass at the beginning of a connection: it returns what the
// runtime has to do. It moves only containers that are elsewhere.
func (h *hooks) placeAll(ctx context.Context) []*api.ContainerUpdate {
	if s, err := h.newPlacement(); err == nil && s.preparer != nil {
		h.state.Disown(s.pool)
		h.quarantine.tell(&s, true)
	}
	out, err := h.place(ctx, h.state.Running(), true)
	if err != nil {
		klog.FromContext(ctx).Error(err, "will be tried again")
		h.repin()
	}
	return out.updates
}

func firstFailure(out pinning.Outcome) error {
	if len(out.Failed) == 0 {
		return nil
	}
	f := out.Failed[0]
	return fmt.Errorf("%s is not on %s: %w", f.Container, f.Want, f.Err)
}
