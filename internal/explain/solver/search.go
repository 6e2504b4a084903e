// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"cmp"
	"slices"
)

// outcome is the result of a part of the search.
type outcome uint8

const (
	failed outcome = iota
	solved
	aborted
	// exceeded: every way on has more devices than a claim can have. The allocator
	// backtracks further then, past devices that it would have tried otherwise.
	exceeded
	cutShort
)

// requestRef names a request by its claim.
type requestRef struct{ claim, request int }

// search is one backtracking search. Its state is what has been allocated so far.
type search struct {
	s *Solver
	p *Problem
	// requestOn and constraintOn say which members count, by claim.
	requestOn, constraintOn [][]bool
	// order is the order of requests: the claims' own where allocatorOrder is true.
	order          []requestRef
	allocatorOrder bool
	// withoutMemo searches as the allocator does, which remembers no dead end, up to a
	// limit of steps.
	withoutMemo bool
	limit       int
	// open says for each position of the order which constraints still apply to
	// something from there on.
	open [][]constraintID

	state
	placed  []Placement
	culprit *Culprit
	steps   int
	key     []byte
}

type constraintID struct{ claim, index int }

func newSearch(s *Solver, mask []bool) *search {
	q := &search{s: s, p: s.p, limit: maxSteps}
	clear(s.memo)
	for _, claim := range s.p.Claims {
		q.requestOn = append(q.requestOn, make([]bool, len(claim.Requests)))
		q.constraintOn = append(q.constraintOn, make([]bool, len(claim.Constraints)))
	}
	for i, m := range s.members {
		if m.Constraint {
			q.constraintOn[m.Claim][m.Index] = mask[i]
		} else {
			q.requestOn[m.Claim][m.Index] = mask[i]
		}
	}
	for c, requests := range q.requestOn {
		for r, counts := range requests {
			if counts {
				q.order = append(q.order, requestRef{c, r})
			}
		}
	}
	q.state = newState(s)
	return q
}

func (q *search) run() Result {
	q.findOpen()
	out := q.next(0)
	r := Result{Steps: q.steps, Culprit: q.culprit}
	switch out {
	case solved:
		r.Verdict, r.Placed = Fits, q.placed
		sortPlaced(r.Placed)
	case aborted:
		r.Verdict = Aborts
	case cutShort:
		r.Verdict = Unknown
	default:
		r.Verdict = FitsNot
	}
	return r
}

// next allocates for the request at a position of the order, and all after it.
func (q *search) next(at int) outcome {
	if at == len(q.order) {
		return solved
	}
	if q.withoutMemo {
		return q.alternatives(at)
	}
	q.stateKey(at)
	if known, seen := q.s.memo[string(q.key)]; seen {
		return known
	}
	key := string(q.key)
	out := q.alternatives(at)
	// Claims stand for themselves: a limit that one exceeds says nothing of the
	// choices in another.
	if out == exceeded && at > 0 && q.order[at-1].claim != q.order[at].claim {
		out = failed
	}
	if out == failed || out == exceeded {
		q.s.memo[key] = out
	}
	return out
}

func (q *search) alternatives(at int) outcome {
	r := q.order[at]
	request := &q.p.Claims[r.claim].Requests[r.request]
	all := failed
	if len(request.Alternatives) > 0 {
		all = exceeded
	}
	for a := range request.Alternatives {
		switch out := q.fill(at, a, 0, 0); out {
		case exceeded:
		case failed:
			all = failed
		default:
			return out
		}
	}
	return all
}

// fill allocates the devices of an alternative from the nth on, none before start:
// within a request their order means nothing.
func (q *search) fill(at, a, n, start int) outcome {
	r := q.order[at]
	alternative := &q.p.Claims[r.claim].Requests[r.request].Alternatives[a]
	if alternative.WantsAll && len(alternative.All) == 0 {
		return failed
	}
	if n >= alternative.Count {
		return q.next(at + 1)
	}
	if alternative.Count-n > q.p.MaxResults-q.results[r.claim] {
		return exceeded
	}
	if alternative.WantsAll {
		return q.fillAll(at, a, n)
	}
	// Of a class of interchangeable devices it is enough to try the first: where that
	// one is a dead end, so is another.
	tried := make([]bool, q.s.classes)
	for _, d := range q.s.candidates[r.claim][r.request][a] {
		if d < start || tried[q.s.class[d]] && !q.withoutMemo || !q.available(r.claim, d, alternative.Admin) {
			continue
		}
		if alternative.Fit[d] == Yes && !q.hasCapacity(d, alternative) {
			continue
		}
		tried[q.s.class[d]] = true
		if out := q.try(at, a, n, d); out != failed {
			return out
		}
	}
	return failed
}

// try allocates a device as the nth of an alternative, and all that comes after it.
func (q *search) try(at, a, n, d int) outcome {
	r := q.order[at]
	if q.p.Claims[r.claim].Requests[r.request].Alternatives[a].Fit[d] == Abort {
		q.culprit = &Culprit{Member: Member{Claim: r.claim, Index: r.request}, Alternative: a, Device: d}
		return aborted
	}
	if q.steps++; q.steps > q.limit {
		return cutShort
	}
	if !q.countersSuffice(d) {
		return failed
	}
	if k := q.refusing(r, a, d); k >= 0 {
		if !q.underivable(r, a, d, k) {
			return failed
		}
		q.culprit = &Culprit{Member: Member{Claim: r.claim, Index: r.request}, Alternative: a, Device: d, Underivable: true, Constraint: k}
		return aborted
	}
	q.allocate(r, a, d)
	out := q.fill(at, a, n+1, d+1)
	if out != solved {
		q.deallocate(r, a, d)
	}
	return out
}

// underivable says whether a constraint refuses a device because what it compares cannot
// be derived, which ends the search.
func (q *search) underivable(r requestRef, a, d, k int) bool {
	return q.p.Claims[r.claim].Constraints[k].value(r.request, a, d).Kind == Underivable
}

// fillAll allocates the nth of all devices (allocationMode All): there is no choice. A
// constraint that refuses it ends the whole search.
func (q *search) fillAll(at, a, n int) outcome {
	r := q.order[at]
	alternative := &q.p.Claims[r.claim].Requests[r.request].Alternatives[a]
	d := alternative.All[n]
	q.steps++
	if alternative.Fit[d] == No || !q.available(r.claim, d, alternative.Admin) || !q.countersSuffice(d) {
		return failed
	}
	if k := q.refusing(r, a, d); k >= 0 {
		if q.allocatorOrder {
			q.culprit = &Culprit{Member: Member{Claim: r.claim, Index: r.request}, Alternative: a, Device: d,
				Underivable: q.underivable(r, a, d, k), Constraint: k}
			return aborted
		}
		return failed
	}
	if alternative.Fit[d] == RejectedLate || !q.hasCapacity(d, alternative) {
		return failed
	}
	q.allocate(r, a, d)
	out := q.fill(at, a, n+1, 0)
	if out != solved {
		q.deallocate(r, a, d)
	}
	return out
}

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

// ties counts the constraints that a request shares with those before it.
func (q *search) ties(r requestRef, open []bool) int {
	n := 0
	for _, k := range q.s.touches[r.claim][r.request] {
		if open[k] && q.constraintOn[r.claim][k] {
			n++
		}
	}
	return n
}

func (q *search) devicesOf(r requestRef) int {
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

// enoughDevices says whether a bipartite matching gives each wanted device one of its
// own, with constraints and shared devices left aside. The search would find out too,
// only after many steps: nine requests for eight GPUs are a pigeonhole problem.
func (q *search) enoughDevices() bool {
	m := matching{q: q, owner: map[int]int{}}
	for _, r := range q.order {
		request := &q.p.Claims[r.claim].Requests[r.request]
		if len(request.Alternatives) != 1 || request.Alternatives[0].WantsAll {
			continue
		}
		devices := q.s.candidates[r.claim][r.request][0]
		if q.anyShared(devices) {
			continue
		}
		for range request.Alternatives[0].Count {
			m.slots = append(m.slots, devices)
			m.seen = map[int]bool{}
			if !m.find(len(m.slots) - 1) {
				return false
			}
		}
	}
	return true
}

func (q *search) anyShared(devices []int) bool {
	for _, d := range devices {
		if q.p.Devices[d].Shared {
			return true
		}
	}
	return false
}

// matching is a bipartite matching of wanted devices to devices, grown along
// augmenting paths (Kuhn, 1955).
type matching struct {
	q     *search
	slots [][]int
	owner map[int]int
	seen  map[int]bool
}

func (m *matching) find(slot int) bool {
	for _, d := range m.slots[slot] {
		if m.seen[d] {
			continue
		}
		m.seen[d] = true
		if other, taken := m.owner[d]; !taken || m.find(other) {
			m.owner[d] = slot
			return true
		}
	}
	return false
}
