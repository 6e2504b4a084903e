// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// sharedCounters finds which counters are free, and which devices consume them.
func (n *Node) sharedCounters() {
	for _, pool := range n.Pools {
		if pool.Usable() && len(pool.CounterSets) > 0 {
			n.poolCounters(pool)
		}
	}
}

func (n *Node) poolCounters(pool *snapshot.Pool) {
	overdrawn := ""
	first := len(n.Problem.Counters)
	var names []string
	for _, set := range slices.Sorted(maps.Keys(pool.CounterSets)) {
		for _, name := range slices.Sorted(maps.Keys(pool.CounterSets[set].Counters)) {
			free, takes, ok := n.counter(pool, set, name)
			if !ok {
				n.Unsupported = append(n.Unsupported, fmt.Sprintf("pool %s: amounts of counter %s of %s too far apart to be counted", pool.ID, name, set))
			}
			names = append(names, set+"/"+name)
			for d, amount := range takes {
				n.Problem.Devices[d].ConsumesCounters = append(n.Problem.Devices[d].ConsumesCounters, solver.CounterConsumption{Counter: len(n.Problem.Counters), Amount: amount})
			}
			if free < 0 && overdrawn == "" {
				overdrawn = set + "/" + name
			}
			n.Problem.Counters = append(n.Problem.Counters, free)
		}
	}
	for d := range n.Devices {
		device := &n.Devices[d]
		if device.Pool != pool || len(device.Device.ConsumesCounters) == 0 {
			continue
		}
		held := device.Held != nil && device.Held.Shares > 0
		n.Problem.Devices[d].CountersHeld = held
		if !held || !n.shared(device) {
			n.withoutCounters(d, overdrawn, first, names)
		}
	}
}

// withoutCounters finds devices for which the counters do not suffice. While one
// counter of a pool is overdrawn the allocator gives out none of its devices
// that consume any. names are of the pool's counters, which begin at first.
func (n *Node) withoutCounters(d int, overdrawn string, first int, names []string) {
	var short []string
	if overdrawn != "" {
		short = []string{overdrawn}
	}
	for _, t := range n.Problem.Devices[d].ConsumesCounters {
		if overdrawn == "" && t.Counter >= first && n.Problem.Counters[t.Counter] < t.Amount {
			short = append(short, names[t.Counter-first])
		}
	}
	if len(short) == 0 {
		return
	}
	n.eachAlternative(func(a *Alternative, s *solver.Alternative) {
		if a.Why[d].Obstacle == None {
			a.Why[d] = Why{Obstacle: PartsTaken, Counters: short}
			s.Fit[d] = solver.No
		}
	})
}

// counter is what is free of a counter, and what each device takes of it.
func (n *Node) counter(pool *snapshot.Pool, set, name string) (int64, map[int]int64, bool) {
	all := []resource.Quantity{pool.CounterSets[set].Counters[name].Value.DeepCopy()}
	for _, slice := range slices.Concat(pool.Slices, pool.Others) {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			held := n.Cluster.Holder(snapshot.DeviceID{Driver: pool.ID.Driver, Pool: pool.ID.Pool, Device: device.Name})
			if held == nil || !held.Whole && held.Shares == 0 {
				continue
			}
			if amount, takes := consumedCounter(device, set, name); takes {
				all[0].Sub(amount)
			}
		}
	}
	var takers []int
	for d := range n.Devices {
		if n.Devices[d].Pool == pool {
			if amount, takes := consumedCounter(n.Devices[d].Device, set, name); takes {
				takers, all = append(takers, d), append(all, amount)
			}
		}
	}
	numbers, ok := units(all)
	if !ok {
		return 0, nil, false
	}
	amounts := make(map[int]int64, len(takers))
	for i, d := range takers {
		amounts[d] = numbers[i+1]
	}
	return numbers[0], amounts, true
}

// consumedCounter is what a device takes of a counter.
func consumedCounter(d *resourceapi.Device, set, name string) (resource.Quantity, bool) {
	var sum resource.Quantity
	takes := false
	for _, consumed := range d.ConsumesCounters {
		if consumed.CounterSet != set {
			continue
		}
		if counter, found := consumed.Counters[name]; found {
			sum.Add(counter.Value)
			takes = true
		}
	}
	return sum, takes
}
