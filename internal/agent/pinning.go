// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/runtimehooks"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/kubelet"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// policyEvery is how often the kubelet's CPU manager policy is read.
const policyEvery = 30 * time.Second

// hookOptions are all that the hooks get.
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

// refuseStatic says why CPUs cannot be offered beside the kubelet's own CPU
// manager; nil where it leaves them alone, or does not say.
func (a *agent) refuseStatic(ctx context.Context) error {
	m, err := kubelet.ReadCPUManager(a.KubeletRoot)
	if err != nil {
		klog.FromContext(ctx).Info("taken for cpuManagerPolicy: none", "reason", err.Error())
		return nil
	}
	if m.Policy != kubelet.PolicyStatic {
		return nil
	}
	return fmt.Errorf("%s is not offered: the kubelet gives out CPUs itself (cpuManagerPolicy: static), and would move containers onto those of claims; "+
		"drain the node, set cpuManagerPolicy: none in the kubelet's configuration, remove %s/%s, restart the kubelet, and delete this agent's pod",
		slicecodec.DriverCPU, a.KubeletRoot, kubelet.CPUManagerFile)
}

// watchPolicy ends the agent when the kubelet has become another one, so that it
// starts anew and looks again. An agent that offers no CPUs stays: a kubelet that
// gives them out itself rewrites its state with every container.
func (a *agent) watchPolicy(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(policyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m, err := kubelet.ReadCPUManager(a.KubeletRoot)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil: // it is being written
			klog.FromContext(ctx).V(2).Info("will be read again", "reason", err.Error())
		case m.Stale || m.Policy == kubelet.PolicyStatic:
			stop(fmt.Errorf("the kubelet has written a new %s since this agent started, which starts anew to read it", kubelet.CPUManagerFile))
			return
		}
	}
}

// countCPUs says what the node's CPUs are for whenever somebody asks for the
// figures.
func (a *agent) countCPUs(ctx context.Context) {
	for _, p := range a.preparers {
		if p.Pinner == nil {
			continue
		}
		a.metrics.CPUsFrom(func() metrics.CPUs {
			records, _, err := p.Journal.List(p.Name())
			if err != nil {
				klog.FromContext(ctx).Error(err, "held CPUs are not counted")
			}
			records = slices.DeleteFunc(records, func(r driver.Record) bool { return r.BootID != p.BootID })
			m := a.merged.Current()
			return cpusOf(m, slicecodec.ReservedCPUs(m, a.CPUs), records, p.Pinner)
		})
	}
}

// cpusOf counts CPUs and claims.
func cpusOf(m *model.Machine, reserved cpuset.CPUSet, records []driver.Record, pinner driver.Pinner) metrics.CPUs {
	out := metrics.CPUs{Nodes: map[string]map[string]int{}, Claims: map[int]int{}}
	held := cpuset.New()
	for _, r := range records {
		pin, err := pinner.Exclusive([]driver.Record{r})
		if err != nil {
			continue // the claim says so
		}
		held = held.Union(pin.CPUs)
		out.Claims[pin.CPUs.Size()]++
	}
	for _, c := range m.CPUs {
		node, state := "none", "available"
		if c.NUMANode != nil {
			node = strconv.Itoa(*c.NUMANode)
		}
		switch {
		case held.Contains(c.ID):
			state = "allocated"
		case !c.Online:
			state = "offline"
		case reserved.Contains(c.ID):
			state = "reserved"
		}
		if out.Nodes[node] == nil {
			out.Nodes[node] = map[string]int{"allocated": 0, "available": 0, "reserved": 0}
		}
		out.Nodes[node][state]++
	}
	return out
}
