// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package conflict finds the smallest part of a whole that cannot be had. It
// knows numbered members and a question; what they are is not known here.
package conflict

import "slices"

// questions is the most questions that the search for the smallest conflict may
// ask; after that the smallest one found so far is the answer.
const questions = 1000

// Smallest returns, sorted, a smallest set of the n members that conflicts, when
// all of them do. Without any one of its members the set does not conflict.
// exact says that no smaller one does. alike lists, with a set, others that
// conflict when it does and do not when it does not.
func Smallest(n int, conflicts func(on []bool) bool, alike func(set []int) [][]int) (smallest []int, exact bool) {
	f := finder{n: n, ask: conflicts, alike: alike}
	all := make([]bool, n)
	for i := range all {
		all[i] = true
	}
	f.reduce(all, everything(n))
	found, exact := f.smaller(all)
	// A conflict may not be one with more members: a device that ends the whole
	// search with an error does not when something else has it. Then the set is
	// shrunk until no member can go.
	return members(f.shrink(of(n, found))), exact
}

type finder struct {
	n     int
	ask   func(on []bool) bool
	alike func(set []int) [][]int
	asked int
}

func (f *finder) conflicts(on []bool) bool {
	f.asked++
	return f.ask(on)
}

// shrink takes members out of a conflict, the last first, until each is needed.
func (f *finder) shrink(on []bool) []bool {
	on = slices.Clone(on)
	for again := true; again; {
		again = false
		for i := f.n - 1; i >= 0; i-- {
			if !on[i] {
				continue
			}
			on[i] = false
			if f.conflicts(on) {
				again = true
			} else {
				on[i] = true
			}
		}
	}
	return on
}

// smaller finds a smallest conflict, none larger than best: every conflict has a
// member of each set whose absence ends all conflicts, so a smallest set that
// hits all of these, and conflicts, is a smallest conflict.
func (f *finder) smaller(best []bool) ([]int, bool) {
	most := len(members(best))
	var corrections [][]int
	for f.asked < questions {
		hit := smallestHitting(corrections, most-1)
		if hit == nil {
			return members(best), true
		}
		on := of(f.n, hit)
		if f.conflicts(on) {
			return hit, true
		}
		corrections = append(corrections, f.alike(f.correction(on))...)
	}
	return members(best), false
}

// reduce takes members out of a conflict as long as it stays one, the last
// first, and many at a time.
func (f *finder) reduce(on []bool, some []int) {
	if len(some) == 0 {
		return
	}
	set(on, some, false)
	if f.conflicts(on) {
		return
	}
	set(on, some, true)
	if len(some) > 1 {
		f.reduce(on, some[len(some)/2:])
		f.reduce(on, some[:len(some)/2])
	}
}

// correction grows a set that does not conflict as far as it goes, many members
// at a time, and returns what is left: what would have to go.
func (f *finder) correction(on []bool) []int {
	var out []int
	for i, is := range on {
		if !is {
			out = append(out, i)
		}
	}
	on = slices.Clone(on)
	// All of them conflict, that much is known.
	f.grow(on, out[:len(out)/2])
	f.grow(on, out[len(out)/2:])
	return slices.DeleteFunc(out, func(i int) bool { return on[i] })
}

func (f *finder) grow(on []bool, some []int) {
	if len(some) == 0 {
		return
	}
	set(on, some, true)
	if !f.conflicts(on) {
		return
	}
	set(on, some, false)
	if len(some) > 1 {
		f.grow(on, some[:len(some)/2])
		f.grow(on, some[len(some)/2:])
	}
}

func set(on []bool, some []int, to bool) {
	for _, i := range some {
		on[i] = to
	}
}

func everything(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// smallestHitting is a smallest set with a member of each of the sets, nil if
// it takes more than most.
func smallestHitting(sets [][]int, most int) []int {
	for size := 0; size <= most; size++ {
		if hit, ok := hitting(sets, make([]int, 0, size), size); ok {
			return hit
		}
	}
	return nil
}

func hitting(sets [][]int, chosen []int, size int) ([]int, bool) {
	for _, set := range sets {
		if slices.ContainsFunc(set, func(i int) bool { return slices.Contains(chosen, i) }) {
			continue
		}
		if len(chosen) == size {
			return nil, false
		}
		for _, i := range set {
			if hit, ok := hitting(sets, append(chosen, i), size); ok {
				return hit, true
			}
		}
		return nil, false
	}
	sorted := slices.Clone(chosen)
	slices.Sort(sorted)
	return sorted, true
}

func of(n int, set []int) []bool {
	on := make([]bool, n)
	for _, i := range set {
		on[i] = true
	}
	return on
}

func members(on []bool) []int {
	set := []int{}
	for i, is := range on {
		if is {
			set = append(set, i)
		}
	}
	return set
}
