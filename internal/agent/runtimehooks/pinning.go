// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// lacks says what a container still needs, from the journal's records and what
// the runtime shows of it. It waits for the API watch only where that matters.
func (h *hooks) lacks(ctx context.Context, c runningContainer, records []driver.Record, wait time.Duration) (change, error) {
	facts := h.pods.Get(c.sandbox.UID)
	shares, err := sharesOf(c.sandbox, c.facts, records, facts)
	if err != nil && facts == nil && wait > 0 {
		shares, err = sharesOf(c.sandbox, c.facts, records, h.pods.Wait(ctx, c.sandbox.UID, wait))
	}
	if err != nil {
		return change{}, err
	}
	var pin driver.Pin
	for _, p := range h.preparers {
		if p.Pinner == nil {
			continue
		}
		if pin, err = placement(p.Pinner, p.Machine(), c.confined, ofDriver(shares, p.Name()), recordsOf(records, p.Name())); err != nil {
			return change{}, err
		}
	}
	lacks := adjust(c.facts, shares, pin)
	lacks.Memlock = !c.facts.Memlock && h.locksMemory(shares)
	lacks.Confined = !pin.CPUs.IsEmpty()
	return lacks, nil
}

// locksMemory says whether a share holds devices that reach into the container's
// memory. The default limit of 64 KiB or 8 MiB would fail their first buffer.
func (h *hooks) locksMemory(shares []share) bool {
	return slices.ContainsFunc(shares, func(s share) bool {
		p := h.preparerOf(s.record.Driver)
		return p.MemoryLocker != nil && p.MemoryLocker.MemlockFor(s.part())
	})
}

func ofDriver(shares []share, name string) []share {
	var mine []share
	for _, s := range shares {
		if s.record.Driver == name {
			mine = append(mine, s)
		}
	}
	return mine
}

func recordsOf(records []driver.Record, name string) []driver.Record {
	var mine []driver.Record
	for _, r := range records {
		if r.Driver == name {
			mine = append(mine, r)
		}
	}
	return mine
}

// updates lists the running containers that are not where they belong; none
// where the journal cannot be read, which leaves them where they are.
func (h *hooks) updates(ctx context.Context) []*api.ContainerUpdate {
	records, err := h.records((*claims.Preparer).NeedsRuntime)
	if err != nil {
		klog.FromContext(ctx).Error(err, "no container is moved")
		return nil
	}
	var updates []*api.ContainerUpdate
	for _, c := range h.state.running() {
		lacks, err := h.lacks(ctx, c, records, 0)
		if err != nil {
			klog.FromContext(ctx).Error(err, "container not placed", "pod", c.sandbox.String(), "container", c.facts.Name)
			continue
		}
		if lacks.Confined && lacks.CPUs == "" {
			h.state.confine(c.facts.ID) // by an agent before this one
		}
		if u := updateOf(c.facts.ID, lacks); u != nil {
			updates = append(updates, u)
		}
	}
	return updates
}

func updateOf(id string, lacks change) *api.ContainerUpdate {
	if lacks.CPUs == "" && lacks.Mems == "" {
		return nil
	}
	u := &api.ContainerUpdate{}
	u.SetContainerId(id)
	if lacks.CPUs != "" {
		u.SetLinuxCPUSetCPUs(lacks.CPUs)
	}
	if lacks.Mems != "" {
		u.SetLinuxCPUSetMems(lacks.Mems)
	}
	u.SetIgnoreFailure() // a container that has just stopped is no reason to leave the others
	return u
}

// moved notes updates that the runtime has taken.
func (h *hooks) moved(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		cpu := u.GetLinux().GetResources().GetCpu()
		if cpu.GetCpus() != "" {
			h.state.confine(u.GetContainerId())
		}
		h.state.placed(u.GetContainerId(), change{CPUs: cpu.GetCpus(), Mems: cpu.GetMems()})
	}
}

// adjustmentOf puts a change into the runtime's words; nil for none.
func adjustmentOf(lacks change) *api.ContainerAdjustment {
	if len(lacks.Env) == 0 && len(lacks.CDI) == 0 && !lacks.Memlock && lacks.CPUs == "" && lacks.Mems == "" {
		return nil
	}
	a := &api.ContainerAdjustment{}
	for _, env := range lacks.Env {
		key, value, _ := strings.Cut(env, "=")
		a.AddEnv(key, value)
	}
	for _, id := range lacks.CDI {
		a.AddCDIDevice(&api.CDIDevice{Name: id})
	}
	if lacks.Memlock {
		a.AddRlimit(memlock, math.MaxUint64, math.MaxUint64) // RLIM_INFINITY
	}
	if lacks.CPUs != "" {
		a.SetLinuxCPUSetCPUs(lacks.CPUs)
	}
	if lacks.Mems != "" {
		a.SetLinuxCPUSetMems(lacks.Mems)
	}
	return a
}

// placement says where a container runs: on the CPUs of its claims, or with
// every other container on what claims leave. Where those leave everything, only
// what we had confined is set free: a cpuset of the kubelet's (its static CPU
// policy) is not ours to widen.
func placement(p driver.Pinner, m *model.Machine, confined bool, shares []share, held []driver.Record) (driver.Pin, error) {
	var mine []driver.Record
	for _, s := range shares {
		mine = append(mine, s.part())
	}
	pin, err := p.Exclusive(mine)
	if err != nil || !pin.CPUs.IsEmpty() {
		return pin, err
	}
	pin, err = p.Shared(m, held)
	if err != nil {
		return driver.Pin{}, err
	}
	if pin.CPUs.IsEmpty() && confined {
		// An empty set would leave it as it is.
		pin.CPUs = onlineCPUs(m)
	}
	return pin, nil
}

func onlineCPUs(m *model.Machine) cpuset.CPUSet {
	var ids []int
	for _, c := range m.CPUs {
		if c.Online {
			ids = append(ids, c.ID)
		}
	}
	return cpuset.New(ids...)
}
