// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"testing"

	"plumbline.dev/plumbline/internal/explain/solver"
)

// pairs is a claim for pairs of a device of two kinds each with one value.
func pairs(n int) *solver.Problem {
	p := &solver.Problem{MaxResults: 32, Devices: make([]solver.Device, 2*n)}
	var c solver.Claim
	values := make([]solver.Value, 2*n)
	for d := range values {
		values[d] = solver.Value{Kind: solver.Scalar, ID: d % n / 2}
	}
	for i := range n {
		for kind := range 2 {
			a := solver.Alternative{Count: 1, Fit: make([]solver.Fit, 2*n), Needs: make([][]int64, 2*n)}
			for d := range n {
				a.Fit[kind*n+d] = solver.Yes
			}
			c.Requests = append(c.Requests, solver.Request{Alternatives: []solver.Alternative{a}})
		}
		applies := make([][]bool, 2*n)
		for r := range applies {
			applies[r] = []bool{r/2 == i}
		}
		c.Constraints = append(c.Constraints, solver.Constraint{Applies: applies, Values: values})
	}
	p.Claims = []solver.Claim{c}
	return p
}

// The pairs of a claim are alike: what is said of one, or of two, may be said of
// any.
func TestOrbit(t *testing.T) {
	s := solver.New(pairs(8))
	for _, tc := range []struct {
		set  []int
		want int
	}{
		{[]int{0}, 8},        // a first device
		{[]int{0, 1}, 8},     // a pair
		{[]int{0, 2}, 28},    // two first devices
		{[]int{0, 3}, 56},    // a first and a second of two pairs
		{[]int{0, 1, 16}, 8}, // a pair with its constraint
		{[]int{0, 1, 17}, 56},
	} {
		if got := s.Orbit(tc.set); len(got) != tc.want {
			t.Errorf("%v: %d alike, want %d: %v", tc.set, len(got), tc.want, got)
		}
	}
}
