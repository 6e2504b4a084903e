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

	"plumbline.dev/plumbline/internal/agent/podclaims"
	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
)

// lacks says what a container that is being made still needs, from the journal's
// records and what the runtime shows of it. It waits for the API watch only where
// that matters.
func (h *hooks) lacks(ctx context.Context, c runtimestate.Running, made *api.Container, records []driver.Record, wait time.Duration) (change, error) {
	facts := h.pods.Get(c.Sandbox.UID)
	shares, err := podclaims.SharesOf(c.Sandbox, c.Container, records, facts)
	if err != nil && facts == nil && wait > 0 {
		shares, err = podclaims.SharesOf(c.Sandbox, c.Container, records, h.pods.Wait(ctx, c.Sandbox.UID, wait))
	}
	if err != nil {
		return change{}, err
	}
	pin, err := h.pins.PinFor(c, records, shares)
	if err != nil {
		return change{}, err
	}
	lacks := adjust(c.Container, shares, pin)
	lacks.Memlock = !c.Container.Memlock && h.locksMemory(shares)
	if lacks.Edits, err = h.containerEdits(ctx, c, made, shares); err != nil {
		return change{}, err
	}
	var notes []driver.Note
	lacks.RemoveMounts, notes, err = h.metadataToRemove(ctx, c, made, shares, lacks.CDI)
	lacks.Edits.Notes = append(lacks.Edits.Notes, notes...)
	return lacks, err
}

// locksMemory says whether a share holds devices that reach into the container's
// memory. The default limit of 64 KiB or 8 MiB would fail their first buffer.
func (h *hooks) locksMemory(shares []podclaims.Share) bool {
	return slices.ContainsFunc(shares, func(s podclaims.Share) bool {
		p := h.preparerOf(s.Record.Driver)
		return p.MemoryLocker != nil && p.MemoryLocker.MemlockFor(s.Part())
	})
}

// adjustmentOf makes NRI's message of a change; nil for none.
func adjustmentOf(lacks change) *api.ContainerAdjustment {
	none := len(lacks.Env)+len(lacks.CDI)+len(lacks.Edits.Env)+len(lacks.Edits.CharDevices)+len(lacks.Edits.Mounts)+len(lacks.RemoveMounts) == 0
	if none && !lacks.Memlock && lacks.CPUs == "" && lacks.Mems == "" {
		return nil
	}
	a := &api.ContainerAdjustment{}
	addEdits(a, lacks.Edits)
	for _, destination := range lacks.RemoveMounts {
		a.RemoveMount(destination)
	}
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

// change is what a container still lacks.
type change struct {
	Env, CDI   []string
	CPUs, Mems string
	// RequestedCPUs is what is to be remembered of the CPUs that it comes with; nil where
	// that is remembered.
	RequestedCPUs *string
	// Memlock: it must be able to lock any amount of memory.
	Memlock bool
	// RemoveMounts are the destinations of mounts that would keep it from starting, or that
	// it must not have.
	RemoveMounts []string
	// Edits are what its drivers said late.
	Edits driver.ContainerEdits
}

// adjust says what a container lacks of its shares and of its placement.
func adjust(c runtimestate.Container, shares []podclaims.Share, pin driver.Pin) change {
	var out change
	for _, s := range shares {
		if !s.PodLevel {
			continue
		}
		for _, i := range s.Devices {
			// The marker also tells a second agent that the device is there:
			// the runtime takes each CDI device once.
			if marker := cdi.Marker(s.Record, i); !slices.Contains(c.Env, marker) {
				out.Env = append(out.Env, marker)
				out.CDI = append(out.CDI, cdi.ID(s.Record, i))
			}
		}
	}
	for _, env := range pin.Env {
		if !slices.Contains(c.Env, env) {
			out.Env = append(out.Env, env)
		}
	}
	if cpus := pin.CPUs.String(); cpus != c.CPUs {
		out.CPUs = cpus
	}
	if own := c.RequestedCPUs.String(); own == c.CPUs {
		out.RequestedCPUs = &own
	}
	if mems := pin.Mems.String(); mems != c.Mems {
		out.Mems = mems
	}
	return out
}
