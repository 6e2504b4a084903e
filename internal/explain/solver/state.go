// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// state is what has been allocated so far.
type state struct {
	// by says which claims have a device of which only one claim can have one,
	// as bits.
	by []uint64
	// taken counts the taken devices of each class.
	taken []int
	// free is what is left of the capacities of shared devices, and shares how
	// many have been given out.
	free   [][]int64
	shares []int
	// counters is what is left of them.
	counters []int64
	// results counts the devices of each claim.
	results []int
	// values are those of the devices under each constraint, in the order of
	// placing: of a match what is common so far.
	values [][][]Value
}

func newState(s *Solver) state {
	st := state{
		by: make([]uint64, len(s.p.Devices)), taken: make([]int, s.classes), shares: make([]int, len(s.p.Devices)),
		free: make([][]int64, len(s.p.Devices)), counters: slices.Clone(s.p.Counters), results: make([]int, len(s.p.Claims)),
	}
	for d := range s.p.Devices {
		if s.p.Devices[d].Shared {
			st.free[d] = slices.Clone(s.p.Devices[d].Free)
		}
	}
	for _, claim := range s.p.Claims {
		st.values = append(st.values, make([][]Value, len(claim.Constraints)))
	}
	return st
}

// available says whether no request before has the device. One with admin access may
// have what other claims have, only not twice; others may not have what it has.
func (q *search) available(claim, d int, admin bool) bool {
	if admin {
		return q.by[d]&(1<<claim) == 0
	}
	return q.by[d] == 0
}

// hasCapacity says whether a shared device has enough capacity left.
func (q *search) hasCapacity(d int, a *Alternative) bool {
	if !q.p.Devices[d].Shared {
		return true
	}
	for i, free := range q.free[d] {
		if free < a.Needs[d][i] {
			return false
		}
	}
	return true
}

// consumesCounters says whether allocating the device consumes its counters: of a
// shared device the first share does.
func (q *search) consumesCounters(d int) bool {
	device := &q.p.Devices[d]
	return len(device.ConsumesCounters) > 0 && (!device.Shared || !device.CountersHeld && q.shares[d] == 0)
}

func (q *search) countersSuffice(d int) bool {
	if !q.consumesCounters(d) {
		return true
	}
	for _, t := range q.p.Devices[d].ConsumesCounters {
		if q.counters[t.Counter] < t.Amount {
			return false
		}
	}
	return true
}

// refusing is the first constraint that does not take the device, -1 if all do.
func (q *search) refusing(r requestRef, a, d int) int {
	for _, k := range q.s.applies[r.claim][r.request][a] {
		c := &q.p.Claims[r.claim].Constraints[k]
		if q.constraintOn[r.claim][k] && !c.takes(q.values[r.claim][k], c.value(r.request, a, d)) {
			return k
		}
	}
	return -1
}

// takes says whether the constraint holds with one more value.
func (c *Constraint) takes(placed []Value, v Value) bool {
	if v.Kind == Absent || v.Kind == Underivable {
		return false
	}
	if len(placed) == 0 {
		return true
	}
	if v.Kind == Incomparable {
		return false
	}
	if !c.Distinct {
		common := placed[len(placed)-1]
		if v.Kind == Set {
			return len(intersection(common.IDs, v.IDs)) > 0
		}
		return common.Kind == Scalar && common.ID == v.ID
	}
	return !slices.ContainsFunc(placed, func(p Value) bool {
		if v.Kind == Set {
			return len(intersection(p.IDs, v.IDs)) > 0
		}
		return p.Kind == Scalar && p.ID == v.ID
	})
}

// allocate gives a request a device that nothing is against.
func (q *search) allocate(r requestRef, a, d int) {
	device := &q.p.Devices[d]
	if q.consumesCounters(d) {
		for _, t := range device.ConsumesCounters {
			q.counters[t.Counter] -= t.Amount
		}
	}
	for _, k := range q.s.applies[r.claim][r.request][a] {
		if c := &q.p.Claims[r.claim].Constraints[k]; q.constraintOn[r.claim][k] {
			placed := &q.values[r.claim][k]
			v := c.value(r.request, a, d)
			if !c.Distinct && v.Kind == Set && len(*placed) > 0 {
				v.IDs = intersection((*placed)[len(*placed)-1].IDs, v.IDs)
			}
			*placed = append(*placed, v)
		}
	}
	if device.Shared {
		q.shares[d]++
		for i := range q.free[d] {
			q.free[d][i] -= q.p.Claims[r.claim].Requests[r.request].Alternatives[a].Needs[d][i]
		}
	} else {
		q.by[d] |= 1 << r.claim
		q.taken[q.s.class[d]]++
	}
	q.results[r.claim]++
	q.placed = append(q.placed, Placement{Claim: r.claim, Request: r.request, Alternative: a, Device: d})
}

// deallocate undoes allocate.
func (q *search) deallocate(r requestRef, a, d int) {
	device := &q.p.Devices[d]
	q.placed = q.placed[:len(q.placed)-1]
	q.results[r.claim]--
	if device.Shared {
		q.shares[d]--
		for i := range q.free[d] {
			q.free[d][i] += q.p.Claims[r.claim].Requests[r.request].Alternatives[a].Needs[d][i]
		}
	} else {
		q.by[d] &^= 1 << r.claim
		q.taken[q.s.class[d]]--
	}
	for _, k := range q.s.applies[r.claim][r.request][a] {
		if q.constraintOn[r.claim][k] {
			placed := &q.values[r.claim][k]
			*placed = (*placed)[:len(*placed)-1]
		}
	}
	if q.consumesCounters(d) {
		for _, t := range device.ConsumesCounters {
			q.counters[t.Counter] += t.Amount
		}
	}
}

// stateKey writes the state that matters from a position of the order on into q.key:
// where a search from there is a dead end, it is one for every state with that key.
func (q *search) stateKey(at int) {
	key := binary.AppendVarint(q.key[:0], int64(at))
	if q.s.individual {
		for _, by := range q.by {
			key = binary.AppendUvarint(key, by)
		}
	} else {
		for _, n := range q.taken {
			key = binary.AppendVarint(key, int64(n))
		}
	}
	for d, free := range q.free {
		for _, n := range free {
			key = binary.AppendVarint(key, n)
		}
		if q.p.Devices[d].Shared && len(q.p.Devices[d].ConsumesCounters) > 0 {
			key = append(key, byte(min(q.shares[d], 1)))
		}
	}
	for _, n := range q.counters {
		key = binary.AppendVarint(key, n)
	}
	for _, n := range q.results {
		key = binary.AppendVarint(key, int64(n))
	}
	for _, id := range q.open[at] {
		key = q.p.Claims[id.claim].Constraints[id.index].stateKey(key, q.values[id.claim][id.index])
	}
	q.key = key
}

// stateKey appends what of the values under a constraint matters for those to come: of
// matchAttribute what is common, of distinctAttribute all values in any order.
func (c *Constraint) stateKey(key []byte, placed []Value) []byte {
	if len(placed) == 0 {
		return append(key, 0)
	}
	if !c.Distinct {
		return placed[len(placed)-1].append(append(key, 1))
	}
	sorted := slices.SortedFunc(slices.Values(placed), func(a, b Value) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), slices.Compare(a.IDs, b.IDs))
	})
	key = binary.AppendVarint(key, int64(len(sorted)))
	for _, v := range sorted {
		key = v.append(key)
	}
	return key
}

// intersection of two sorted lists.
func intersection(a, b []int) []int {
	var common []int
	for _, x := range a {
		if _, found := slices.BinarySearch(b, x); found {
			common = append(common, x)
		}
	}
	return common
}
