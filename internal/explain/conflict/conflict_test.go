// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package conflict_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"plumbline.dev/plumbline/internal/explain/conflict"
)

func alone(set []int) [][]int { return [][]int{set} }

// holds says whether the members that are on include one of the conflicts.
func holds(conflicts [][]int, on []bool) bool {
	return slices.ContainsFunc(conflicts, func(c []int) bool {
		return !slices.ContainsFunc(c, func(i int) bool { return !on[i] })
	})
}

// Of conflicts that are known a smallest one is found.
func TestSmallest(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a repeatable case, no secret
		n := 1 + r.IntN(12)
		var conflicts [][]int
		least := n
		for range 1 + r.IntN(4) {
			set := r.Perm(n)[:1+r.IntN(n)]
			conflicts = append(conflicts, set)
			least = min(least, len(set))
		}
		found, exact := conflict.Smallest(n, func(on []bool) bool { return holds(conflicts, on) }, alone)
		on := make([]bool, n)
		for _, i := range found {
			on[i] = true
		}
		if !exact || len(found) != least || !holds(conflicts, on) || !slices.IsSorted(found) {
			t.Fatalf("seed %d: conflicts %v: found %v, exact %v", seed, conflicts, found, exact)
		}
	}
}

// Where more members may conflict less, what is found still needs each of its
// members.
func TestNotMonotone(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a repeatable case, no secret
		n := 2 + r.IntN(6)
		answers := map[string]bool{}
		ask := func(on []bool) bool {
			key := make([]byte, n)
			none, all := true, true
			for i, is := range on {
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
		found, _ := conflict.Smallest(n, ask, alone)
		on := make([]bool, n)
		for _, i := range found {
			on[i] = true
		}
		if !ask(on) {
			t.Fatalf("seed %d: %v does not conflict", seed, found)
		}
		for _, i := range found {
			on[i] = false
			if ask(on) {
				t.Fatalf("seed %d: %v conflicts without %d", seed, found, i)
			}
			on[i] = true
		}
	}
}
