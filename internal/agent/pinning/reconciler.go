// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/metrics"
)

// Runtime is the container runtime, as far as it moves containers whose groups this
// agent cannot write.
type Runtime interface {
	// UpdateContainers moves containers; never from within a hook.
	UpdateContainers(updates []*api.ContainerUpdate) error
	// Repin asks for a call of Settle outside of hooks. It does not wait.
	Repin()
}

// Pods are those that the API server has shown.
type Pods interface {
	// Get is a pod, or nil while it has not been shown.
	Get(uid types.UID) *kube.Pod
}

// Options are what NewReconciler works with.
type Options struct {
	// Preparers are the drivers; at most one says where containers run.
	Preparers []*claims.Preparer
	State     *runtimestate.State
	Pods      Pods
	Runtime   Runtime
	// Placer writes containers' control groups; nil where the agent cannot reach
	// them, and the runtime has to.
	Placer *Placer
	// Events and Metrics may be nil: then nothing is written or counted.
	Events  *kube.Events
	Metrics *metrics.Metrics
}

// Reconciler keeps containers where the journal says that they belong.
type Reconciler struct {
	// preparer is the driver that says where containers run; nil where none is
	// served, and every method does nothing.
	preparer *claims.Preparer
	state    *runtimestate.State
	pods     Pods
	runtime  Runtime
	placer   *Placer
	events   *kube.Events
	metrics  *metrics.Metrics
	// moving is held while containers are moved outside of hooks.
	moving     sync.Mutex
	quarantine quarantine
	warned     warned
}

// NewReconciler is ready for use; nothing is moved before one of its methods is called.
func NewReconciler(o Options) *Reconciler {
	r := &Reconciler{state: o.State, pods: o.Pods, runtime: o.Runtime, placer: o.Placer, events: o.Events, metrics: o.Metrics}
	if at := slices.IndexFunc(o.Preparers, func(p *claims.Preparer) bool { return p.Pinner != nil }); at >= 0 {
		r.preparer = o.Preparers[at]
	}
	return r
}

// placed is what a pass did, and what is left for the runtime to do.
type placed struct {
	Outcome
	// updates are for containers whose groups this agent cannot write.
	updates []*api.ContainerUpdate
}

// place brings containers where they belong. look reads every group; otherwise
// those that have been put there before are taken to be. The driver's allocation
// is locked until every group is written: whoever reads the journal later writes
// later. An error says why every container stayed where it was.
func (r *Reconciler) place(ctx context.Context, only []runtimestate.Running, look bool) (placed, error) {
	p := r.preparer
	if p == nil {
		return placed{}, nil
	}
	unlock, err := p.Journal.LockAllocation(ctx, p.Name())
	if err != nil {
		return placed{}, err
	}
	defer unlock()
	return r.placeLocked(ctx, only, look)
}

func (r *Reconciler) placeLocked(ctx context.Context, containers []runtimestate.Running, look bool) (placed, error) {
	s, err := r.newPlacement()
	if err != nil {
		return placed{}, fmt.Errorf("no container is moved: %w", err)
	}
	r.quarantine.report(&s, false)
	assignments := r.assignments(ctx, &s, containers)
	var out placed
	if r.placer == nil {
		out.updates = r.updatesOf(&s, assignments, containers)
		return out, nil
	}
	if look && r.placer.Idle(assignments, s.pool) {
		return out, nil
	}
	out.Outcome = r.placer.Place(assignments, s.pool, look)
	r.report(ctx, out.Outcome)
	for _, f := range out.Failed {
		klog.FromContext(ctx).Error(f.Err, "the container runtime is asked instead", "container", f.Container.String())
		out.updates = append(out.updates, r.updateOf(&s, f.Container))
	}
	return out, nil
}

// report counts containers that another writer had moved, and writes their pods' events.
func (r *Reconciler) report(ctx context.Context, out Outcome) {
	r.metrics.Placed(out.Writes)
	r.metrics.Lifted(out.Lifted)
	for _, d := range out.Drifted {
		note := fmt.Sprintf("container %s was on %s, by whoever wrote its control group, and is on %s again", d.Container.Name, d.Found, d.Want)
		klog.FromContext(ctx).Info("put back", "container", d.Container.String(), "found", d.Found.String(), "now", d.Want.String())
		r.metrics.PutBack(d.Container.Exclusive())
		r.events.Pod(d.Container.Namespace, d.Container.Pod, true, status.PutBack, note)
	}
}

// updatesOf is a pass by the runtime alone: of the containers that it has
// elsewhere.
func (r *Reconciler) updatesOf(s *placement, assignments []Container, containers []runtimestate.Running) []*api.ContainerUpdate {
	has := make(map[string]runtimestate.Container, len(containers))
	for _, c := range containers {
		has[c.Container.ID] = c.Container
	}
	var updates []*api.ContainerUpdate
	for _, assigned := range assignments {
		if assigned.Skip {
			continue
		}
		u, have := r.updateOf(s, assigned), has[assigned.ID]
		cpu := u.GetLinux().GetResources().GetCpu()
		free := Wanted(assigned, s.pool).CPUs.IsEmpty()
		if free && have.CPUs == "" || cpu.GetCpus() == have.CPUs && (cpu.GetMems() == "" || cpu.GetMems() == have.Mems) {
			continue
		}
		updates = append(updates, u)
	}
	return updates
}

// updateOf puts a container's place into the runtime's words, which have none for
// a set that says nothing.
func (r *Reconciler) updateOf(s *placement, assigned Container) *api.ContainerUpdate {
	want := Wanted(assigned, s.pool)
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
func (r *Reconciler) moved(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		cpu := u.GetLinux().GetResources().GetCpu()
		r.state.Placed(u.GetContainerId(), cpu.GetCpus(), cpu.GetMems())
	}
}

// byRuntime moves what a pass left, outside of locks and hooks: the runtime
// answers only when no hook is in flight, and a hook may wait for the lock.
func (r *Reconciler) byRuntime(updates []*api.ContainerUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	if err := r.runtime.UpdateContainers(updates); err != nil {
		return fmt.Errorf("place containers: %w", err)
	}
	r.moved(updates)
	return nil
}

// Settle is a pass over all containers; look reads every group. When it returns without an error no
// container without that claim is left on CPUs that a claim holds.
func (r *Reconciler) Settle(ctx context.Context, look bool) error {
	r.moving.Lock() // one update at a time, so that the last one sent has the newest placement
	defer r.moving.Unlock()
	out, err := r.place(ctx, r.state.Running(), look)
	if err != nil {
		return err
	}
	if err := r.byRuntime(out.updates); err != nil {
		return errors.Join(err, firstFailure(out.Outcome))
	}
	return nil
}

// PlaceAll is a pass at the beginning of a connection: it returns what the
// runtime has to do. It moves only containers that are elsewhere.
func (r *Reconciler) PlaceAll(ctx context.Context) []*api.ContainerUpdate {
	if s, err := r.newPlacement(); err == nil && s.preparer != nil {
		r.state.Disown(s.pool)
		r.quarantine.report(&s, true)
	}
	out, err := r.place(ctx, r.state.Running(), true)
	if err != nil {
		klog.FromContext(ctx).Error(err, "will be tried again")
		r.runtime.Repin()
	}
	r.moved(out.updates)
	return out.updates
}

func firstFailure(out Outcome) error {
	if len(out.Failed) == 0 {
		return nil
	}
	f := out.Failed[0]
	return fmt.Errorf("%s is not on %s: %w", f.Container, f.Want, f.Err)
}
