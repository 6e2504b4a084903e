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

	"plumbline.dev/plumbline/internal/agent/pinning"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/driver"
)

// lacks says what a container that is being made still needs, from the journal's
// records and what the runtime shows of it. It waits for the API watch only where
// that matters.
func (h *hooks) lacks(ctx context.Context, c runtimestate.Running, records []driver.Record, wait time.Duration) (change, error) {
	facts := h.pods.Get(c.Sandbox.UID)
	shares, err := sharesOf(c.Sandbox, c.Container, records, facts)
	if err != nil && facts == nil && wait > 0 {
		shares, err = sharesOf(c.Sandbox, c.Container, records, h.pods.Wait(ctx, c.Sandbox.UID, wait))
	}
	if err != nil {
		return change{}, err
	}
	var pin driver.Pin
	if p := h.pinner(); p != nil {
		s := placement{preparer: p}
		s.add(recordsOf(records, p.Name()))
		if pin, err = pinFor(s, c, ofDriver(shares, p.Name())); err != nil {
			return change{}, err
		}
	}
	lacks := adjust(c.Container, shares, pin)
	lacks.Memlock = !c.Container.Memlock && h.locksMemory(shares)
	return lacks, nil
}

// pinFor says where a container that is being made runs: on the CPUs of its
// claims, or with every other one on what claims leave.
func pinFor(s placement, c runtimestate.Running, shares []share) (driver.Pin, error) {
	if err := s.doubt(shares); err != nil {
		return driver.Pin{}, err
	}
	assigned, err := s.assign(c, shares)
	if err != nil {
		return driver.Pin{}, err
	}
	if !assigned.Exclusive() && s.poolErr != nil {
		return driver.Pin{}, s.poolErr
	}
	want := pinning.Wanted(assigned, s.pool)
	return driver.Pin{CPUs: want.CPUs, Mems: want.Mems, Env: assigned.Pin.Env}, nil
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
	return slices.DeleteFunc(slices.Clone(shares), func(s share) bool { return s.record.Driver != name })
}

func recordsOf(records []driver.Record, name string) []driver.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r driver.Record) bool { return r.Driver != name })
}

// adjustmentOf makes NRI's message of a change; nil for none.
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
		a.AddRlimit(runtimestate.RlimitMemlock, math.MaxUint64, math.MaxUint64) // RLIM_INFINITY
	}
	if lacks.CPUs != "" {
		a.SetLinuxCPUSetCPUs(lacks.CPUs)
		if lacks.RequestedCPUs != nil {
			a.AddAnnotation(runtimestate.OwnCPUs, *lacks.RequestedCPUs)
		}
	}
	if lacks.Mems != "" {
		a.SetLinuxCPUSetMems(lacks.Mems)
	}
	return a
}
