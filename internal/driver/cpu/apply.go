// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Exclusive is what a container holding these records gets: the union of their
// CPUs, and the memory beside them.
func (d Driver) Exclusive(records []driver.Record) (driver.Pin, error) {
	var pin driver.Pin
	anywhere := false
	for _, r := range records {
		plans, err := Plans(r)
		if err != nil {
			return driver.Pin{}, err
		}
		before := pin.CPUs
		for i, p := range plans {
			cpus, err := cpuset.Parse(p.CPUs)
			if err != nil {
				return driver.Pin{}, fmt.Errorf("record of claim %s, device %s: %w", r.Claim, r.Devices[i].Device, err)
			}
			if cpus.IsEmpty() {
				continue // admin access takes nothing
			}
			mems, err := cpuset.Parse(p.Mems)
			if err != nil {
				return driver.Pin{}, fmt.Errorf("record of claim %s, device %s: %w", r.Claim, r.Devices[i].Device, err)
			}
			anywhere = anywhere || mems.IsEmpty()
			pin.CPUs, pin.Mems = pin.CPUs.Union(cpus), pin.Mems.Union(mems)
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
	if anywhere {
		pin.Mems = cpuset.New() // the memory of some of the CPUs is unknown
	}
	return pin, nil
}

// Shared is what every other container gets: all online CPUs that are neither
// reserved nor held; nothing where that is all of them. An empty cpuset would
// mean all CPUs, so with none left it is an error.
func (d Driver) Shared(m *model.Machine, held []driver.Record) (driver.Pin, error) {
	taken, err := takenBy(held)
	if err != nil {
		return driver.Pin{}, err
	}
	reserved := slicecodec.ReservedCPUs(m, d.Offer)
	if taken.cpus.IsEmpty() && reserved.IsEmpty() {
		return driver.Pin{}, nil
	}
	var online []int
	for _, c := range m.CPUs {
		if c.Online {
			online = append(online, c.ID)
		}
	}
	pool := cpuset.New(online...).Difference(taken.cpus).Difference(reserved)
	if pool.IsEmpty() {
		return driver.Pin{}, fmt.Errorf("no CPU is left for containers without a CPU claim: claims hold %s, reserved are %s", taken.cpus, orNone(reserved))
	}
	return driver.Pin{CPUs: pool}, nil
}
