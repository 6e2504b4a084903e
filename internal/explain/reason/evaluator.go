// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package reason says why claims do not fit on a node: the first request that
// cannot be met, the smallest set of requests and constraints that conflict (their
// minimal unsatisfiable subset), and what kind of cause that is, with devices, values
// and holders. What to do about it is package fixes'.
package reason

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/mus"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// Answer is the answer for one node.
type Answer struct {
	*compile.Node
	Verdict solver.Verdict
	outcome
}

// outcome is what the solver finds for a problem. Nodes with equal problems share it.
type outcome struct {
	// Placed are the devices where the claims fit.
	Placed []solver.Placement
	// Culprit is what aborts the allocation.
	Culprit *solver.Culprit
	Members []solver.Member
	// Conflict is a minimal unsatisfiable subset of the members, by index: they cannot
	// be allocated together, while without any one of them the rest can. Smallest says
	// that there is no smaller one.
	Conflict []int
	Smallest bool
	// First is the first request, by index of Members, that cannot be met with
	// those before it, -1 if there is none.
	First int
}

// Evaluator answers for nodes, and caches answers by problem. It may be used by several
// goroutines.
type Evaluator struct {
	compiler *compile.Compiler
	claims   []*resourceapi.ResourceClaim
	mutex    sync.Mutex
	known    map[string]found
}

type found struct {
	verdict solver.Verdict
	outcome outcome
}

// NewEvaluator evaluates claims that are to be allocated together.
func NewEvaluator(c *compile.Compiler, claims []*resourceapi.ResourceClaim) *Evaluator {
	return &Evaluator{compiler: c, claims: claims, known: map[string]found{}}
}

// Claims are those that are asked about.
func (a *Evaluator) Claims() []*resourceapi.ResourceClaim { return a.claims }

// Evaluate answers for a node.
func (a *Evaluator) Evaluate(ctx context.Context, node *corev1.Node) (*Answer, error) {
	n, err := a.compiler.Compile(ctx, node, a.claims)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	if len(n.Unsupported) > 0 {
		return &Answer{Node: n, Verdict: solver.Unknown, outcome: outcome{First: -1}}, nil
	}
	key := n.Problem.Key()
	a.mutex.Lock()
	f, seen := a.known[key]
	a.mutex.Unlock()
	if !seen {
		f = find(n.Problem)
		a.mutex.Lock()
		a.known[key] = f
		a.mutex.Unlock()
	}
	return &Answer{Node: n, Verdict: f.verdict, outcome: f.outcome}, nil
}

// find solves a problem, and finds the conflict if there is one.
func find(p *solver.Problem) found {
	s := solver.New(p)
	result := s.Solve(s.All())
	f := found{result.Verdict, outcome{Placed: result.Placed, Culprit: result.Culprit, Members: s.Members(), First: -1}}
	if result.Verdict == solver.Fits || result.Verdict == solver.Unknown {
		return f
	}
	unknown := false
	fails := func(mask []bool) bool {
		v := s.Solve(mask).Verdict
		unknown = unknown || v == solver.Unknown
		return v != solver.Fits
	}
	f.outcome.Conflict, f.outcome.Smallest = mus.Smallest(len(f.outcome.Members), fails, s.Orbit)
	if unknown {
		f.outcome.Smallest = false
	}
	f.outcome.First = first(f.outcome.Members, fails)
	return f
}

// first finds the first request that cannot be met with those before it, under
// all constraints on them.
func first(members []solver.Member, fails func([]bool) bool) int {
	mask := make([]bool, len(members))
	for i, m := range members {
		mask[i] = m.Constraint
	}
	for i, m := range members {
		if m.Constraint {
			continue
		}
		mask[i] = true
		if fails(mask) {
			return i
		}
	}
	return -1
}

// WithoutDetails is the answer without the node's devices, to save memory.
func (a *Answer) WithoutDetails() *Answer {
	return &Answer{Node: &compile.Node{Node: a.Node.Node, Unsupported: a.Unsupported}, Verdict: a.Verdict, outcome: a.outcome}
}

// Detailed says whether the answer has the node's devices.
func (a *Answer) Detailed() bool { return a.Problem != nil }
