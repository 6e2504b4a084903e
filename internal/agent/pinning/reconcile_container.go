// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"context"
	"slices"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/runtimestate"
)

// Start makes sure of a container's place once it has a control group and before its
// first process runs: a claim may have come since the container was made. An error
// says that it holds CPUs and is not on them, so that it must not start.
func (r *Reconciler) Start(ctx context.Context, c runtimestate.Running) error {
	r.warnUnmirrored(c)
	out := r.placeOne(ctx, c)
	if len(out.updates) == 0 {
		return nil
	}
	if f := out.Failed; len(f) > 0 && f[0].Container.Exclusive() {
		return firstFailure(out.Outcome)
	}
	r.runtime.Repin() // by the runtime, which is called outside of hooks
	return nil
}

// placeOne is a pass over one container, which reads its group. Where it belongs on an
// error is not known: it stays, and is looked at again.
func (r *Reconciler) placeOne(ctx context.Context, c runtimestate.Running) placed {
	out, err := r.place(ctx, []runtimestate.Running{c}, true)
	if err != nil {
		klog.FromContext(ctx).Error(err, "will be looked at again", "pod", c.Sandbox.String(), "container", c.Container.Name)
		r.runtime.Repin()
	}
	return out
}

// Update keeps an update of other resources from moving the container: the runtime
// writes all that it remembers of the container, as it was when it was made. It
// returns what the runtime has to write as well, or nil.
func (r *Reconciler) Update(ctx context.Context, c runtimestate.Running, requested *api.LinuxResources) *api.ContainerUpdate {
	s, err := r.newPlacement()
	if s.preparer == nil {
		return nil
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "the container may be moved, and will be put back", "container", c.Container.Name)
		return nil
	}
	cpu := requested.GetCpu()
	c = r.state.Known(c)
	if set, err := cpuset.Parse(cpu.GetCpus()); err == nil && !set.IsEmpty() && !set.Equals(s.pool) {
		c.Container.RequestedCPUs = set // by the author of the update
		r.state.SetContainer(c)
	}
	assignments := r.assignments(ctx, &s, []runtimestate.Running{c})
	if len(assignments) == 0 || assignments[0].Skip {
		return nil
	}
	u := r.updateOf(&s, assignments[0])
	want := u.GetLinux().GetResources().GetCpu()
	switch free := Wanted(assignments[0], s.pool).CPUs.IsEmpty(); {
	case free && c.Container.CPUs == "":
		return nil // it is not confined, nor was it when it was made
	case cpu.GetCpus() == want.GetCpus() && (want.GetMems() == "" || cpu.GetMems() == want.GetMems()):
		return nil // the update says the same, or another agent has said so
	}
	u.IgnoreFailure = false
	return u
}

// Updated looks at what an update left.
func (r *Reconciler) Updated(ctx context.Context, c runtimestate.Running) {
	if out := r.placeOne(ctx, r.state.Known(c)); len(out.updates) > 0 {
		r.runtime.Repin()
	}
}

// Forget drops what is known of a container that has ended.
func (r *Reconciler) Forget(container string) {
	if r.placer != nil {
		r.placer.Forget(container)
	}
}

// ForgetPod drops what is known of a pod that has ended.
func (r *Reconciler) ForgetPod(pod types.UID) { r.warned.drop(pod) }

// Keep drops what is known of all pods and containers but these, which are those that
// the runtime has.
func (r *Reconciler) Keep(pods []*api.PodSandbox, containers []*api.Container) {
	r.warned.keep(func(uid types.UID) bool {
		return slices.ContainsFunc(pods, func(p *api.PodSandbox) bool { return p.GetUid() == string(uid) })
	})
	if r.placer == nil {
		return
	}
	known := make(map[string]bool, len(containers))
	for _, c := range containers {
		known[c.GetId()] = true
	}
	r.placer.Keep(func(id string) bool { return known[id] })
}
