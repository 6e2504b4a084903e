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
		plans, err := plansOf(r)
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
// reserved nor held; empty, which changes nothing, where that is all of them. Where
// claims hold all but the reserved ones it is those: the node's own pods must run
// somewhere. With no CPU left it is an error, since an empty cpuset would be all.
func (d Driver) Shared(m *model.Machine, held []driver.Record) (driver.Pin, error) {
	taken, err := takenBy(held)
	if err != nil {
		return driver.Pin{}, err
	}
	if taken.cpus.IsEmpty() && slicecodec.ReservedCPUs(m, d.Offer).IsEmpty() {
		return driver.Pin{}, nil
	}
	pool := d.notHeld(m, taken.cpus)
	if pool.IsEmpty() {
		return driver.Pin{}, fmt.Errorf("no CPU is left for containers without a CPU claim: claims hold %s", taken.cpus)
	}
	return driver.Pin{CPUs: pool}, nil
}

// notHeld are the CPUs for shared containers when claims hold some.
func (d Driver) notHeld(m *model.Machine, held cpuset.CPUSet) cpuset.CPUSet {
	var online []int
	for _, c := range m.CPUs {
		if c.Online {
			online = append(online, c.ID)
		}
	}
	rest := cpuset.New(online...).Difference(held)
	if pool := rest.Difference(slicecodec.ReservedCPUs(m, d.Offer)); !pool.IsEmpty() {
		return pool
	}
	return rest
}
