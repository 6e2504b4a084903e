// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package mus finds a smallest minimal unsatisfiable subset (MUS) of a set of
// constraints: a part that is unsatisfiable, while without any one of its members
// it is satisfiable. The constraints are numbers here, and a callback is the
// satisfiability oracle.
//
// A minimal correction set (MCS) is a part without which the rest is satisfiable,
// with no smaller part of it that does. By the duality of the two (Reiter, A Theory
// of Diagnosis from First Principles, 1987; Liffiton and Sakallah, Algorithms for
// Computing Minimal Unsatisfiable Subsets of Constraints, 2008) every MUS has a
// member of every MCS: it is a hitting set of them. Smallest is the algorithm of
// Ignatiev, Previti, Liffiton and Marques-Silva, Smallest MUS Extraction with
// Minimal Hitting Set Dualization, 2015 (FORQES): take a minimum hitting set of the
// correction sets known so far; where it is unsatisfiable it is a smallest MUS, else
// grow it to a maximal satisfiable subset, whose complement is another correction
// set. Hitting sets are found here by exhaustive search, and both shrinking and
// growing go by halves, in the manner of QuickXplain (Junker, 2004).
package mus

import "slices"

// maxQueries bounds the queries of the oracle in the search for a smallest MUS; after
// that the smallest one found so far is the answer.
const maxQueries = 1000

// Smallest returns, sorted, a smallest MUS of the n constraints, which together are
// unsatisfiable. exact says that there is no smaller one. symmetric lists, with a
// correction set, others that are correction sets when it is.
func Smallest(n int, unsatisfiable func(mask []bool) bool, symmetric func(set []int) [][]int) (smallest []int, exact bool) {
	f := finder{n: n, oracle: unsatisfiable, symmetric: symmetric}
	all := make([]bool, n)
	indices := make([]int, n)
	for i := range all {
		all[i], indices[i] = true, i
	}
	f.reduce(all, indices)
	found, exact := f.smallest(all)
	// The oracle need not be monotone: a superset of an unsatisfiable set may be
	// satisfiable, since a device that ends the allocator's search with an error does
	// not when another request has it. So it is made sure that no member can go.
	return toIndices(f.shrink(toMask(n, found))), exact
}

type finder struct {
	n         int
	oracle    func(mask []bool) bool
	symmetric func(set []int) [][]int
	queries   int
}

func (f *finder) unsatisfiable(mask []bool) bool {
	f.queries++
	return f.oracle(mask)
}

// shrink makes a MUS of an unsatisfiable set by the deletion filter (Chinneck and
// Dravnieks, 1991): each member is left out, the last first, and comes back where the
// rest is satisfiable. It is repeated until nothing more goes, because the oracle need
// not be monotone.
func (f *finder) shrink(mask []bool) []bool {
	mask = slices.Clone(mask)
	for again := true; again; {
		again = false
		for i := f.n - 1; i >= 0; i-- {
			if !mask[i] {
				continue
			}
			mask[i] = false
			if f.unsatisfiable(mask) {
				again = true
			} else {
				mask[i] = true
			}
		}
	}
	return mask
}

// smallest finds a smallest MUS by hitting set dualization, none larger than best,
// which is unsatisfiable.
func (f *finder) smallest(best []bool) ([]int, bool) {
	most := len(toIndices(best))
	var correctionSets [][]int
	for f.queries < maxQueries {
		hitting := minimumHittingSet(correctionSets, most-1)
		if hitting == nil {
			return toIndices(best), true
		}
		mask := toMask(f.n, hitting)
		if f.unsatisfiable(mask) {
			return hitting, true
		}
		correctionSets = append(correctionSets, f.symmetric(f.correctionSet(mask))...)
	}
	return toIndices(best), false
}

// reduce takes members out of an unsatisfiable set as long as it stays one: all of
// the candidates, or else their halves, the last first.
func (f *finder) reduce(mask []bool, candidates []int) {
	if len(candidates) == 0 {
		return
	}
	set(mask, candidates, false)
	if f.unsatisfiable(mask) {
		return
	}
	set(mask, candidates, true)
	if len(candidates) > 1 {
		f.reduce(mask, candidates[len(candidates)/2:])
		f.reduce(mask, candidates[:len(candidates)/2])
	}
}

// correctionSet grows a satisfiable set to a maximal one, and returns its complement,
// which is a minimal correction set.
func (f *finder) correctionSet(mask []bool) []int {
	var out []int
	for i, is := range mask {
		if !is {
			out = append(out, i)
		}
	}
	mask = slices.Clone(mask)
	// That all of them together are unsatisfiable is known.
	f.grow(mask, out[:len(out)/2])
	f.grow(mask, out[len(out)/2:])
	return slices.DeleteFunc(out, func(i int) bool { return mask[i] })
}

// grow adds the candidates to a satisfiable set, or else what of their halves leaves
// it satisfiable.
func (f *finder) grow(mask []bool, candidates []int) {
	if len(candidates) == 0 {
		return
	}
	set(mask, candidates, true)
	if !f.unsatisfiable(mask) {
		return
	}
	set(mask, candidates, false)
	if len(candidates) > 1 {
		f.grow(mask, candidates[:len(candidates)/2])
		f.grow(mask, candidates[len(candidates)/2:])
	}
}

// minimumHittingSet is a smallest set with a member of each of the sets, nil if it
// takes more than most members.
func minimumHittingSet(sets [][]int, most int) []int {
	for size := 0; size <= most; size++ {
		if hitting, ok := extend(sets, make([]int, 0, size), size); ok {
			return hitting
		}
	}
	return nil
}

// extend adds members of the first set that is not hit yet to those chosen, up to a
// size, until all sets are hit.
func extend(sets [][]int, chosen []int, size int) ([]int, bool) {
	for _, set := range sets {
		if slices.ContainsFunc(set, func(i int) bool { return slices.Contains(chosen, i) }) {
			continue
		}
		if len(chosen) == size {
			return nil, false
		}
		for _, i := range set {
			if hitting, ok := extend(sets, append(chosen, i), size); ok {
				return hitting, true
			}
		}
		return nil, false
	}
	sorted := slices.Clone(chosen)
	slices.Sort(sorted)
	return sorted, true
}

func set(mask []bool, indices []int, to bool) {
	for _, i := range indices {
		mask[i] = to
	}
}

func toMask(n int, indices []int) []bool {
	mask := make([]bool, n)
	set(mask, indices, true)
	return mask
}

func toIndices(mask []bool) []int {
	indices := []int{}
	for i, is := range mask {
		if is {
			indices = append(indices, i)
		}
	}
	return indices
}
