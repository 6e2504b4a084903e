// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"cmp"
	"slices"
)

// reorder puts requests that a constraint ties together next to each other, and
// those with few devices first: then a dead end shows early, and few constraints
// are open at a time. The answer does not depend on it.
func (q *search) reorder() {
	left := q.order
	q.order = make([]place, 0, len(left))
	for len(left) > 0 {
		best, bestTies, bestDevices := -1, 0, 0
		for i, r := range left {
			ties, devices := q.ties(r), q.devicesOf(r)
			if best < 0 || ties > bestTies || ties == bestTies && devices < bestDevices {
				best, bestTies, bestDevices = i, ties, devices
			}
		}
		q.order = append(q.order, left[best])
		left = slices.Delete(slices.Clone(left), best, best+1)
	}
}

// ties counts the constraints that a request shares with those placed.
func (q *search) ties(r place) int {
	n := 0
	for k := range q.p.Claims[r.claim].Constraints {
		if !q.touches(r, k) {
			continue
		}
		for _, before := range q.order {
			if before.claim == r.claim && q.touches(before, k) {
				n++
				break
			}
		}
	}
	return n
}

// touches says whether a constraint applies to any alternative of a request.
func (q *search) touches(r place, k int) bool {
	return q.constraintOn[r.claim][k] && slices.Contains(q.p.Claims[r.claim].Constraints[k].Applies[r.request], true)
}

func (q *search) devicesOf(r place) int {
	n := 0
	for _, devices := range q.s.candidates[r.claim][r.request] {
		n += len(devices)
	}
	return n
}

// findOpen finds for each position which constraints matter from there on.
func (q *search) findOpen() {
	q.open = make([][]constraintID, len(q.order)+1)
	for c, claim := range q.p.Claims {
		for k := range claim.Constraints {
			last := -1
			for at, r := range q.order {
				if r.claim == c && q.touches(r, k) {
					last = at
				}
			}
			for at := range last + 1 {
				q.open[at] = append(q.open[at], constraintID{c, k})
			}
		}
	}
}

// sortPlaced sorts by claim and request, and keeps the order within one.
func sortPlaced(placed []Placement) {
	slices.SortStableFunc(placed, func(a, b Placement) int {
		return cmp.Or(cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Request, b.Request))
	})
}
