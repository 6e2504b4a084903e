// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mus_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"plumbline.dev/plumbline/internal/explain/mus"
)

func symmetricOnlyToItself(set []int) [][]int { return [][]int{set} }

// holds says whether the mask includes one of the unsatisfiable sets.
func holds(unsatisfiable [][]int, mask []bool) bool {
	return slices.ContainsFunc(unsatisfiable, func(c []int) bool {
		return !slices.ContainsFunc(c, func(i int) bool { return !mask[i] })
	})
}

// Of unsatisfiable sets that are known a smallest one is found.
func TestSmallest(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a repeatable case, no secret
		n := 1 + r.IntN(12)
		var unsatisfiable [][]int
		least := n
		for range 1 + r.IntN(4) {
			set := r.Perm(n)[:1+r.IntN(n)]
			unsatisfiable = append(unsatisfiable, set)
			least = min(least, len(set))
		}
		found, exact := mus.Smallest(n, func(mask []bool) bool { return holds(unsatisfiable, mask) }, symmetricOnlyToItself)
		mask := make([]bool, n)
		for _, i := range found {
			mask[i] = true
		}
		if !exact || len(found) != least || !holds(unsatisfiable, mask) || !slices.IsSorted(found) {
			t.Fatalf("seed %d: unsatisfiable %v: found %v, exact %v", seed, unsatisfiable, found, exact)
		}
	}
}

// Where the oracle is not monotone, what is found still needs each of its
// members.
func TestNotMonotone(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a repeatable case, no secret
		n := 2 + r.IntN(6)
		answers := map[string]bool{}
		ask := func(mask []bool) bool {
			key := make([]byte, n)
			none, all := true, true
			for i, is := range mask {
				none, all = none && !is, all && is
				if is {
					key[i] = 1
				}
			}
			if none || all {
				return all
			}
			answer, known := answers[string(key)]
			if !known {
				answer = r.IntN(2) == 0
				answers[string(key)] = answer
			}
			return answer
		}
		found, _ := mus.Smallest(n, ask, symmetricOnlyToItself)
		mask := make([]bool, n)
		for _, i := range found {
			mask[i] = true
		}
		if !ask(mask) {
			t.Fatalf("seed %d: %v is satisfiable", seed, found)
		}
		for _, i := range found {
			mask[i] = false
			if ask(mask) {
				t.Fatalf("seed %d: %v is unsatisfiable without %d", seed, found, i)
			}
			mask[i] = true
		}
	}
}
