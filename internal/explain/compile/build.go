// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/explain/cluster"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// build makes the solver's problem.
func (n *Node) build() {
	p := &solver.Problem{MaxResults: resourceapi.AllocationResultsMaxSize, Devices: make([]solver.Device, len(n.Devices))}
	n.Problem = p
	for d := range n.Devices {
		p.Devices[d].Shared = n.shared(&n.Devices[d])
	}
	for c := range n.Claims {
		claim := &n.Claims[c]
		var s solver.Claim
		for r := range claim.Requests {
			var request solver.Request
			for a := range claim.Requests[r].Alternatives {
				request.Alternatives = append(request.Alternatives, n.alternative(&claim.Requests[r].Alternatives[a]))
			}
			s.Requests = append(s.Requests, request)
		}
		for k := range claim.Claim.Spec.Devices.Constraints {
			s.Constraints = append(s.Constraints, n.constraint(claim, k))
		}
		p.Claims = append(p.Claims, s)
	}
	for d := range n.Devices {
		if p.Devices[d].Shared {
			n.share(d)
		}
	}
	n.count()
}

func (n *Node) alternative(a *Alternative) solver.Alternative {
	s := solver.Alternative{
		Invalid: a.Refused != "", Count: int(min(a.Count, 1<<30)), WantsAll: a.All, Admin: a.Admin,
		Fit: make([]solver.Fit, len(n.Devices)), Needs: make([][]int64, len(n.Devices)),
	}
	for d := range n.Devices {
		held := n.Devices[d].Held
		taken := held != nil && held.Whole && !a.Admin
		switch obstacle := a.Why[d].Obstacle; {
		case obstacle == None:
			s.Fit[d] = solver.Yes
		case obstacle == SelectorFails || obstacle == CapacityFails:
			// What somebody has is passed over without a look.
			if !taken {
				s.Fit[d] = solver.Abort
			}
		case obstacle == TooLittleLeft && a.All:
			s.Fit[d] = solver.Late
		}
		if a.All && a.Why[d].inAll() {
			s.All = append(s.All, d)
		}
	}
	if a.All {
		s.Count = len(s.All)
	}
	return s
}

// inAll says whether a device is one of all: also when it cannot be had.
func (w Why) inAll() bool {
	return w.Obstacle.Matches() || w.Obstacle == CountersOff || w.Obstacle == OperationsOff
}

// share computes what is free of a shared device, and what each request takes of
// it, in units of their own.
func (n *Node) share(d int) {
	device := &n.Devices[d]
	var free []int64
	names := sortedNames(device.Device.Capacity)
	needs := map[*solver.Alternative][]int64{}
	for _, name := range names {
		var askers []*solver.Alternative
		all := []resource.Quantity{left(device.Device.Capacity[name].Value, device.Held, name)}
		n.each(func(a *Alternative, s *solver.Alternative) {
			if takes := a.Takes[d]; takes != nil {
				askers, all = append(askers, s), append(all, takes[name])
			}
		})
		numbers, ok := units(all)
		if !ok {
			n.NotJudged = append(n.NotJudged, fmt.Sprintf("device %s: amounts of %s too far apart to be counted", device.ID, name))
			numbers = make([]int64, len(all))
		}
		free = append(free, numbers[0])
		for i, s := range askers {
			needs[s] = append(needs[s], numbers[i+1])
		}
	}
	n.Problem.Devices[d].Free = free
	n.each(func(_ *Alternative, s *solver.Alternative) {
		s.Needs[d] = needs[s]
		if s.Needs[d] == nil {
			s.Needs[d] = make([]int64, len(free))
		}
	})
}

// each goes over all alternatives with what the solver knows of them.
func (n *Node) each(do func(*Alternative, *solver.Alternative)) {
	for c := range n.Claims {
		for r := range n.Claims[c].Requests {
			for a := range n.Claims[c].Requests[r].Alternatives {
				do(&n.Claims[c].Requests[r].Alternatives[a], &n.Problem.Claims[c].Requests[r].Alternatives[a])
			}
		}
	}
}

// counterKey names a counter.
type counterKey struct {
	pool      cluster.PoolID
	set, name string
}

// count finds which counters are free, and which devices consume them.
func (n *Node) count() {
	index := map[counterKey]int{}
	for _, pool := range n.Pools {
		if pool.Usable() && len(pool.CounterSets) > 0 {
			n.countPool(pool, index)
		}
	}
}

func (n *Node) countPool(pool *cluster.Pool, index map[counterKey]int) {
	overdrawn := ""
	first := len(n.Problem.Counters)
	for _, set := range slices.Sorted(maps.Keys(pool.CounterSets)) {
		for _, name := range slices.Sorted(maps.Keys(pool.CounterSets[set].Counters)) {
			free, takes, ok := n.counter(pool, set, name)
			if !ok {
				n.NotJudged = append(n.NotJudged, fmt.Sprintf("pool %s: amounts of counter %s of %s too far apart to be counted", pool.ID, name, set))
			}
			index[counterKey{pool.ID, set, name}] = len(n.Problem.Counters)
			for d, amount := range takes {
				n.Problem.Devices[d].Takes = append(n.Problem.Devices[d].Takes, solver.Take{Counter: len(n.Problem.Counters), Amount: amount})
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
			n.withoutCounters(d, overdrawn, first)
		}
	}
}

// withoutCounters finds devices for which the counters do not suffice. While one
// counter of a pool is overdrawn the allocator gives out none of its devices
// that consume any.
func (n *Node) withoutCounters(d int, overdrawn string, first int) {
	short := overdrawn
	for _, t := range n.Problem.Devices[d].Takes {
		if short == "" && t.Counter >= first && n.Problem.Counters[t.Counter] < t.Amount {
			short = n.Devices[d].Device.ConsumesCounters[0].CounterSet
		}
	}
	if short == "" {
		return
	}
	n.each(func(a *Alternative, s *solver.Alternative) {
		if a.Why[d].Obstacle == None {
			a.Why[d] = Why{Obstacle: PartsTaken, Detail: short}
			s.Fit[d] = solver.No
		}
	})
}

// counter is what is free of a counter, and what each device takes of it.
func (n *Node) counter(pool *cluster.Pool, set, name string) (int64, map[int]int64, bool) {
	all := []resource.Quantity{pool.CounterSets[set].Counters[name].Value.DeepCopy()}
	for _, slice := range slices.Concat(pool.Slices, pool.Others) {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			held := n.Cluster.Holder(cluster.DeviceID{Driver: pool.ID.Driver, Pool: pool.ID.Pool, Device: device.Name})
			if held == nil || !held.Whole && held.Shares == 0 {
				continue
			}
			if amount, takes := taken(device, set, name); takes {
				all[0].Sub(amount)
			}
		}
	}
	var takers []int
	for d := range n.Devices {
		if n.Devices[d].Pool == pool {
			if amount, takes := taken(n.Devices[d].Device, set, name); takes {
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

// taken is what a device takes of a counter.
func taken(d *resourceapi.Device, set, name string) (resource.Quantity, bool) {
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

func sortedNames(has capacities) []resourceapi.QualifiedName {
	return slices.Sorted(maps.Keys(has))
}
