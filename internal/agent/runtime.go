// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"path/filepath"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/runtimehooks"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/kube"
)

// netnsDir is where container runtimes keep the network namespaces of pods by name.
const netnsDir = "/var/run/netns"

// joinRuntime connects to the container runtime and waits until it has said
// what it runs. Without a driver that needs it, nobody connects.
func (a *agent) joinRuntime(ctx context.Context) error {
	if !a.needsRuntime() {
		var err error
		if a.VerifyInterval > 0 {
			a.pods, err = kube.WatchPods(ctx, a.client, a.NodeName, "")
		}
		return err
	}
	// Until the last hook is answered, which is after ctx has ended.
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	known, err := kube.WatchPods(watching, a.client, a.NodeName, filepath.Join(a.StateDir, "pods.json"))
	if err != nil {
		unwatch()
		return err
	}
	a.pods = known
	if a.VerifyInterval > 0 { // with the right to look into the processes of pods
		a.runtime.FindNetns(func(pid uint32) string { return netns.OfProcess(a.ProcRoot, pid, netnsDir) })
	}
	options, closePlacer := a.hookOptions(ctx)
	a.serving.Go(func() {
		defer unwatch()
		defer closePlacer()
		a.runtime.Serve(ctx, options)
	})
	select {
	case <-a.runtime.Joined():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hookOptions are everything that answers to NRI hooks need.
func (a *agent) hookOptions(ctx context.Context) (runtimehooks.Options, func()) {
	placer, closePlacer := a.openPlacer(ctx)
	return runtimehooks.Options{Preparers: a.preparers, Pods: a.pods, Events: a.events, Metrics: a.metrics, Placer: placer}, closePlacer
}

// openPlacer opens the host's control groups where a driver says where containers
// run. Without them the container runtime is asked, which is slower and sees less.
func (a *agent) openPlacer(ctx context.Context) (*pinning.Placer, func()) {
	if a.CgroupRoot == "" || !a.pins() {
		return nil, func() {}
	}
	placer, err := pinning.Open(a.CgroupRoot)
	if err != nil {
		klog.FromContext(ctx).Error(err, "containers are moved by the container runtime, one after the other, and not looked at in between")
		return nil, func() {}
	}
	return placer, func() { _ = placer.Close() } // each write was checked
}

func (a *agent) pins() bool {
	for _, p := range a.preparers {
		if p.Pinner != nil {
			return true
		}
	}
	return false
}
