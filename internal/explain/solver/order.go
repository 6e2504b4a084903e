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
	left := slices.Clone(q.order)
	q.order = q.order[:0]
	open := make([][]bool, len(q.p.Claims))
	for c := range q.p.Claims {
		open[c] = make([]bool, len(q.p.Claims[c].Constraints))
	}
	for len(left) > 0 {
		best, bestTies, bestDevices := -1, 0, 0
		for i, r := range left {
			ties, devices := q.ties(r, open[r.claim]), q.devicesOf(r)
			if best < 0 || ties > bestTies || ties == bestTies && devices < bestDevices {
				best, bestTies, bestDevices = i, ties, devices
			}
		}
		r := left[best]
		for _, k := range q.s.touches[r.claim][r.request] {
			open[r.claim][k] = true
		}
		q.order = append(q.order, r)
		left = slices.Delete(left, best, best+1)
	}
}

// ties counts the constraints that a request shares with those placed.
func (q *search) ties(r place, open []bool) int {
	n := 0
	for _, k := range q.s.touches[r.claim][r.request] {
		if open[k] && q.constraintOn[r.claim][k] {
			n++
		}
	}
	return n
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
	last := make([][]int, len(q.p.Claims))
	for c := range q.p.Claims {
		last[c] = make([]int, len(q.p.Claims[c].Constraints))
	}
	for at, r := range q.order {
		for _, k := range q.s.touches[r.claim][r.request] {
			last[r.claim][k] = at + 1
		}
	}
	q.open = make([][]constraintID, len(q.order)+1)
	for c := range last {
		for k, until := range last[c] {
			for at := range until {
				if q.constraintOn[c][k] {
					q.open[at] = append(q.open[at], constraintID{c, k})
				}
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
