// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/metrics"
)

// observes says whether the agent has no driver to serve. It then opens no socket of
// the container runtime's and none of the kubelet's but pod-resources, which only
// answers, publishes nothing, and writes nothing on the host: whoever serves the node's
// devices goes on alone.
func (o Options) observes() bool { return len(o.Drivers) == 0 }

// observe looks at a node that others serve, until ctx ends: the machine, and
// the pods with claims.
func observe(ctx context.Context, o Options) error {
	ctx, stop := context.WithCancel(ctx)
	client, _, err := kube.Connect(o.Kubeconfig)
	if err != nil {
		stop()
		return err
	}
	events := kube.NewEvents(ctx, o.NodeName)
	a := &agent{Options: o, client: client, events: events, merged: &publish.MergedMachine{}, status: status.NewWriter(client, events), metrics: metrics.New()}
	a.status.Failed = a.metrics.StatusFailed
	defer func() { stop(); a.serving.Wait() }()
	a.serving.Go(func() { events.Run(ctx, client) })
	a.health.waitFor("the first scan of the machine")
	if err := errors.Join(a.serveSocket(ctx), a.serveMetrics(ctx)); err != nil {
		return err
	}
	// Sysfs alone: an observer has no need of the host's network namespace.
	sys, err := sysfs.Open(o.SysfsRoot)
	if err != nil {
		return err
	}
	defer func() { _ = sys.Close() }() // nothing was written
	scans := inventory.Watch(ctx, inventory.Sources{Sys: sys}, inventory.Options{}, resync)
	first, err := firstScan(ctx, scans, o)
	if err != nil {
		return err
	}
	if err := a.merged.Update(first.Machine, nil); err != nil {
		return err
	}
	known, err := kube.WatchPods(ctx, client, o.NodeName, "")
	if err != nil {
		return err
	}
	a.verifyPods(ctx, known)
	go shrink(ctx)
	a.health.done()
	klog.FromContext(ctx).Info("serving nothing, looking at what others serve", "node", o.NodeName)
	for scan := range scans {
		if scan.Err != nil {
			klog.FromContext(ctx).Error(scan.Err, "the machine was not read; what is known of it stays")
			continue
		}
		if err := a.merged.Update(scan.Machine, nil); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
