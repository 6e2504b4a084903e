// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package solver decides whether claims can be allocated on one node, exactly:
// devices are numbers and what fits is tables, which package compile makes; no API
// type is used here.
//
// The rules are those of the upstream allocator (package structured of
// k8s.io/dynamic-resource-allocation), whose search tries every order of devices
// until one works. This one remembers dead ends (memoization), and of a class of
// interchangeable devices tries one only, so an answer that costs the scheduler
// seconds costs it microseconds. Where the scheduler's answer depends on the order
// in which it looks, because a device on its way aborts the search, the solver looks
// in the same order.
package solver

import "slices"

// Verdict is the answer for a node.
type Verdict uint8

// Verdicts.
const (
	// Fits: the claims can be allocated.
	Fits Verdict = iota
	// FitsNot: they cannot.
	FitsNot
	// Aborts: the allocator ends with an error, for all nodes.
	Aborts
	// Unknown: the search was cut short.
	Unknown
)

// Placement is a device that a request got.
type Placement struct {
	Claim, Request, Alternative int
	Device                      int
}

// Result is the result of a search.
type Result struct {
	Verdict Verdict
	// Placed are the devices when the claims fit, in the order of the requests.
	Placed []Placement
	// Culprit is where the search aborted: a request (its device is -1 when the
	// allocator refuses to begin) or a constraint.
	Culprit *Culprit
	// Steps is how many devices were tried.
	Steps int
}

// Culprit is what aborts a search.
type Culprit struct {
	Member      Member
	Alternative int
	// Device is -1 where no device is to blame.
	Device int
	// Underivable says that a value cannot be derived from the device: what the
	// claim's constraint of that index compares.
	Underivable bool
	Constraint  int
}

// maxSteps is the most devices that a search tries.
const maxSteps = 2_000_000

// Solver answers questions about one problem. It is not safe for use by several
// goroutines.
type Solver struct {
	p       *Problem
	members []Member
	// class numbers classes of interchangeable devices. -1 is a device that no request
	// can have.
	class   []int
	classes int
	// individual says that it matters which device of a class is allocated: a request
	// has admin access to what others have; or wants all devices, which the allocator
	// takes one after the other until one is allocated already (a dead end) or a
	// constraint refuses one (the end of the search); or a list is among values to be
	// distinct, which has to come first.
	individual bool
	// candidates are the devices that fit or abort, by claim, request and
	// alternative.
	candidates [][][][]int
	// applies are the constraints on each alternative, and touches those on any
	// alternative of a request.
	applies [][][][]int
	touches [][][]int
	// groups are what Orbit permutes, and groupOf that of each member.
	groups  []group
	groupOf []int
	// memo has the dead ends of a search by their stateKey. It is a field only to be
	// allocated once.
	memo map[string]outcome
}

// New makes a solver of a problem.
func New(p *Problem) *Solver {
	s := &Solver{p: p, members: p.Members(), memo: map[string]outcome{}}
	for _, claim := range p.Claims {
		var ofClaim [][][]int
		for _, r := range claim.Requests {
			var ofRequest [][]int
			for _, a := range r.Alternatives {
				var devices []int
				for d, fit := range a.Fit {
					if fit != No {
						devices = append(devices, d)
					}
				}
				ofRequest = append(ofRequest, devices)
				s.individual = s.individual || a.Admin || a.WantsAll && len(claim.Constraints) > 0
			}
			ofClaim = append(ofClaim, ofRequest)
		}
		s.candidates = append(s.candidates, ofClaim)
		for i := range claim.Constraints {
			s.individual = s.individual || claim.Constraints[i].Distinct && claim.Constraints[i].hasIncomparable()
		}
	}
	s.classify()
	s.indexConstraints()
	return s
}

// indexConstraints finds which constraints are on which requests.
func (s *Solver) indexConstraints() {
	for _, claim := range s.p.Claims {
		applies, touches := make([][][]int, len(claim.Requests)), make([][]int, len(claim.Requests))
		for r := range claim.Requests {
			applies[r] = make([][]int, len(claim.Requests[r].Alternatives))
			for k := range claim.Constraints {
				for a := range applies[r] {
					if claim.Constraints[k].Applies[r][a] {
						applies[r][a] = append(applies[r][a], k)
					}
				}
				if slices.Contains(claim.Constraints[k].Applies[r], true) {
					touches[r] = append(touches[r], k)
				}
			}
		}
		s.applies, s.touches = append(s.applies, applies), append(s.touches, touches)
	}
}

// Members are those of the problem.
func (s *Solver) Members() []Member { return s.members }

// All selects every member.
func (s *Solver) All() []bool {
	mask := make([]bool, len(s.members))
	for i := range mask {
		mask[i] = true
	}
	return mask
}

// Solve answers for the members in the mask, as if the claims had no others.
func (s *Solver) Solve(mask []bool) Result {
	q := newSearch(s, mask)
	if culprit := q.refuses(); culprit != nil {
		return Result{Verdict: Aborts, Culprit: culprit}
	}
	q.allocatorOrder = q.dependsOnOrder()
	if !q.allocatorOrder {
		if !q.enoughDevices() {
			return Result{Verdict: FitsNot}
		}
		q.reorder()
	}
	return q.run()
}

// ExceedsBudget says whether the allocator, which remembers no dead ends, tries more
// than a number of devices before it knows.
func (s *Solver) ExceedsBudget(steps int) bool {
	q := newSearch(s, s.All())
	if q.refuses() != nil {
		return false
	}
	q.allocatorOrder, q.withoutMemo, q.limit = true, true, steps
	return q.run().Verdict == Unknown
}

// refuses finds what makes the allocator refuse to begin: an invalid request or
// constraint, and more devices than a claim can have.
func (q *search) refuses() *Culprit {
	for c, claim := range q.p.Claims {
		least := 0
		for r, request := range claim.Requests {
			if !q.requestOn[c][r] {
				continue
			}
			fewest := 0
			for a, alternative := range request.Alternatives {
				if alternative.Invalid {
					return &Culprit{Member: Member{Claim: c, Index: r}, Alternative: a, Device: -1}
				}
				if a == 0 || alternative.Count < fewest {
					fewest = alternative.Count
				}
			}
			if fewest > q.p.MaxResults-least {
				return &Culprit{Member: Member{Claim: c, Index: r}, Device: -1}
			}
			least += fewest
		}
		for k, constraint := range claim.Constraints {
			if q.constraintOn[c][k] && constraint.Invalid {
				return &Culprit{Member: Member{Claim: c, Index: k, Constraint: true}, Device: -1}
			}
		}
	}
	return nil
}

// dependsOnOrder says whether the allocator's answer depends on the order in
// which it looks: a device aborts its search, by a selector or a value that cannot be
// derived, a request wants all devices and a constraint may refuse one, a request has
// admin access, or a list is among values to be distinct.
func (q *search) dependsOnOrder() bool {
	for _, r := range q.order {
		for a, alternative := range q.p.Claims[r.claim].Requests[r.request].Alternatives {
			if alternative.Admin {
				return true
			}
			for _, d := range q.s.candidates[r.claim][r.request][a] {
				if alternative.Fit[d] == Abort {
					return true
				}
			}
			for _, k := range q.s.applies[r.claim][r.request][a] {
				if q.constraintOn[r.claim][k] && (alternative.WantsAll || q.orderCounts(r, a, k)) {
					return true
				}
			}
		}
	}
	return false
}

// orderCounts says whether it matters under a constraint which device an alternative
// tries first.
func (q *search) orderCounts(r requestRef, a, k int) bool {
	c := &q.p.Claims[r.claim].Constraints[k]
	return slices.ContainsFunc(q.s.candidates[r.claim][r.request][a], func(d int) bool {
		kind := c.value(r.request, a, d).Kind
		return kind == Underivable || c.Distinct && kind == Incomparable
	})
}
