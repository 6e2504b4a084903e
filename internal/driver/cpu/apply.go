// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"encoding/json"
	"fmt"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// Exclusive is what a container holding these records gets: the union of their
// CPUs, and memory of the same NUMA nodes.
func (d Driver) Exclusive(records []driver.Record) (driver.Pin, error) {
	var pin driver.Pin
	for _, r := range records {
		before := pin.CPUs
		for _, device := range r.Devices {
			p, set, err := decodePlan(r, device)
			if err != nil {
				return driver.Pin{}, err
			}
			if set.IsEmpty() {
				continue // admin access takes nothing
			}
			pin.CPUs, pin.Mems = pin.CPUs.Union(set), pin.Mems.Union(cpuset.New(p.NUMANode))
		}
		if pin.CPUs.Equals(before) {
			continue
		}
		env, err := Env(r)
		if err != nil {
			return driver.Pin{}, err
		}
		pin.Env = append(pin.Env, env)
	}
	return pin, nil
}

// Shared is what every other container gets: all online CPUs that are neither
// reserved nor held; nothing where that is all of them. An empty cpuset would
// mean all CPUs, so with none left it is an error.
func (d Driver) Shared(m *model.Machine, held []driver.Record) (driver.Pin, error) {
	taken, err := heldCPUs(held)
	if err != nil {
		return driver.Pin{}, err
	}
	if taken.IsEmpty() && d.Reserved.IsEmpty() {
		return driver.Pin{}, nil
	}
	var online []int
	for _, c := range m.CPUs {
		if c.Online {
			online = append(online, c.ID)
		}
	}
	pool := cpuset.New(online...).Difference(taken).Difference(d.Reserved)
	if pool.IsEmpty() {
		return driver.Pin{}, fmt.Errorf("no CPU is left for containers without a CPU claim: claims hold %s, reserved are %s", taken, orNone(d.Reserved))
	}
	return driver.Pin{CPUs: pool}, nil
}

// heldCPUs is the union of the records' CPUs.
func heldCPUs(records []driver.Record) (cpuset.CPUSet, error) {
	held := cpuset.New()
	for _, r := range records {
		for _, device := range r.Devices {
			_, cpus, err := decodePlan(r, device)
			if err != nil {
				return cpuset.New(), err
			}
			held = held.Union(cpus)
		}
	}
	return held, nil
}

func decodePlan(r driver.Record, device driver.DeviceRecord) (Plan, cpuset.CPUSet, error) {
	var p Plan
	if err := json.Unmarshal(device.Plan, &p); err != nil {
		return Plan{}, cpuset.New(), fmt.Errorf("record of claim %s, device %s: decode plan: %w", r.Claim, device.Device, err)
	}
	cpus, err := cpuset.Parse(p.CPUs)
	if err != nil {
		return Plan{}, cpuset.New(), fmt.Errorf("record of claim %s, device %s: %w", r.Claim, device.Device, err)
	}
	return p, cpus, nil
}
