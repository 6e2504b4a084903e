// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

// outcome is what came of a part of the search.
type outcome uint8

const (
	failed outcome = iota
	solved
	aborted
	// exceeded: every way on has more devices than a claim can have. The
	// allocator goes back further then, past devices it would have tried.
	exceeded
	cutShort
)

// place is a request in the order of the search.
type place struct{ claim, request int }

// search is one search. Its state is what has been placed so far.
type search struct {
	s *Solver
	p *Problem
	// requestOn and constraintOn say which members count, by claim.
	requestOn, constraintOn [][]bool
	order                   []place
	faithful                bool
	// tedious searches as the allocator does, without a memory, up to a limit of
	// steps.
	tedious bool
	limit   int
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

func newSearch(s *Solver, on []bool) *search {
	q := &search{s: s, p: s.p, limit: budget}
	clear(s.memo)
	for _, claim := range s.p.Claims {
		q.requestOn = append(q.requestOn, make([]bool, len(claim.Requests)))
		q.constraintOn = append(q.constraintOn, make([]bool, len(claim.Constraints)))
	}
	for i, m := range s.members {
		if m.Constraint {
			q.constraintOn[m.Claim][m.Index] = on[i]
		} else {
			q.requestOn[m.Claim][m.Index] = on[i]
		}
	}
	for c, requests := range q.requestOn {
		for r, counts := range requests {
			if counts {
				q.order = append(q.order, place{c, r})
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

// next places the request at a position of the order, and all after it.
func (q *search) next(at int) outcome {
	if at == len(q.order) {
		return solved
	}
	if q.tedious {
		return q.alternatives(at)
	}
	q.remember(at)
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

// fill places the devices of an alternative from the nth on, none before start:
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
	// Of one kind it is enough to try the first: where that one led nowhere, so
	// does another.
	tried := make([]bool, q.s.classes)
	for _, d := range q.s.candidates[r.claim][r.request][a] {
		if d < start || tried[q.s.class[d]] && !q.tedious || !q.available(r.claim, d, alternative.Admin) {
			continue
		}
		if alternative.Fit[d] == Yes && !q.hasRoom(d, alternative) {
			continue
		}
		tried[q.s.class[d]] = true
		if out := q.try(at, a, n, d); out != failed {
			return out
		}
	}
	return failed
}

// try places a device as the nth of an alternative, and all that comes after it.
func (q *search) try(at, a, n, d int) outcome {
	r := q.order[at]
	if q.p.Claims[r.claim].Requests[r.request].Alternatives[a].Fit[d] == Abort {
		q.culprit = &Culprit{Member: Member{Claim: r.claim, Index: r.request}, Alternative: a, Device: d}
		return aborted
	}
	if q.steps++; q.steps > q.limit {
		return cutShort
	}
	if !q.put(r, a, d) {
		return failed
	}
	out := q.fill(at, a, n+1, d+1)
	if out != solved {
		q.take(r, a, d)
	}
	return out
}

// fillAll places the nth of all devices: there is no choice. A constraint that
// refuses it ends the whole search.
func (q *search) fillAll(at, a, n int) outcome {
	r := q.order[at]
	alternative := &q.p.Claims[r.claim].Requests[r.request].Alternatives[a]
	d := alternative.All[n]
	q.steps++
	if alternative.Fit[d] == No || !q.available(r.claim, d, alternative.Admin) || !q.countersSuffice(d) {
		return failed
	}
	if k := q.refusing(r, a, d); k >= 0 {
		if q.faithful {
			q.culprit = &Culprit{Member: Member{Claim: r.claim, Index: r.request}, Alternative: a, Device: d}
			return aborted
		}
		return failed
	}
	if alternative.Fit[d] == Late || !q.hasRoom(d, alternative) || !q.put(r, a, d) {
		return failed
	}
	out := q.fill(at, a, n+1, 0)
	if out != solved {
		q.take(r, a, d)
	}
	return out
}
