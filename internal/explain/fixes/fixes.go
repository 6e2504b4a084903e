// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package fixes proposes what to change so that claims fit. Each proposal is
// applied to copies and solved first: one that does not help is not proposed. Why the
// claims do not fit is package reason's.
package fixes

import (
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// Kinds of fixes, for programs.
const (
	CorrectName    = "correct-name"
	GuardSelector  = "guard-selector"
	GuardDerived   = "guard-derived-attribute"
	EnableGate     = "enable-feature-gate"
	Tolerate       = "tolerate-taint"
	Free           = "free-claim"
	Relax          = "relax-constraint"
	DropConstraint = "drop-constraint"
	LessCapacity   = "ask-for-less-capacity"
	Fewer          = "ask-for-fewer"
	Split          = "split"
	AnotherNode    = "another-node"
)

// Fix is a change with which the claims fit.
type Fix struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Trials are what was solved to know: all of them fit.
	Trials []Trial `json:"-"`
}

// Trial is claims on a node of a cluster.
type Trial struct {
	Cluster *snapshot.Cluster
	Node    string
	Claims  []*resourceapi.ResourceClaim
}

// Limits of what is tried and proposed for one node.
const (
	maxTrials = 150
	maxFixes  = 6
)

// Find proposes fixes for a node on which claims do not fit. Elsewhere are nodes
// that a part of the claims may go to.
func Find(ctx context.Context, a *reason.Answer, cause string, claims []*resourceapi.ResourceClaim, selectors *compile.Selectors, elsewhere []string) []Fix {
	if cause == reason.Malformed {
		return nil
	}
	f := &finder{ctx: ctx, a: a, cause: cause, claims: claims, selectors: selectors, elsewhere: elsewhere}
	for _, propose := range []func(){
		f.names, f.guard, f.guardDerived, f.gates, f.tolerate, f.free, f.relax, f.roots, f.lessCapacity, f.fewer, f.split, f.drop,
	} {
		// A mistake is worth its correction only, not the ways around it.
		mistaken := slices.ContainsFunc(f.fixes, func(x Fix) bool { return x.Kind == CorrectName || x.Kind == GuardSelector || x.Kind == GuardDerived })
		if len(f.fixes) >= maxFixes || mistaken || ctx.Err() != nil {
			break
		}
		propose()
	}
	return f.fixes[:min(len(f.fixes), maxFixes)]
}

type finder struct {
	ctx       context.Context
	a         *reason.Answer
	cause     string
	claims    []*resourceapi.ResourceClaim
	selectors *compile.Selectors
	elsewhere []string
	trials    int
	fixes     []Fix
}

// propose adds a fix if all its trials fit.
func (f *finder) propose(kind, text string, trials ...Trial) bool {
	for _, t := range trials {
		if !f.fits(t) {
			return false
		}
	}
	f.fixes = append(f.fixes, Fix{Kind: kind, Text: text, Trials: trials})
	return true
}

func (f *finder) fits(t Trial) bool {
	node := t.Cluster.Node(t.Node)
	if f.trials++; f.trials > maxTrials || node == nil {
		return false
	}
	n, err := compile.New(t.Cluster, f.selectors).Compile(f.ctx, node, t.Claims)
	if err != nil || len(n.Unsupported) > 0 || f.ctx.Err() != nil {
		return false
	}
	s := solver.New(n.Problem)
	return s.Solve(s.All()).Verdict == solver.Fits
}

// here is the node as it is, with other claims.
func (f *finder) here(claims []*resourceapi.ResourceClaim) Trial {
	return Trial{Cluster: f.a.Cluster, Node: f.a.Node.Node.Name, Claims: claims}
}

// changed copies the claims and changes the copies.
func (f *finder) changed(change func(claim int, c *resourceapi.ResourceClaim)) []*resourceapi.ResourceClaim {
	all := make([]*resourceapi.ResourceClaim, len(f.claims))
	for i, c := range f.claims {
		all[i] = c.DeepCopy()
		change(i, all[i])
	}
	return all
}

// memberRef is a request or a constraint by its claim.
type memberRef struct{ claim, index int }

// conflictMembers are the requests and the constraints of the conflict.
func (f *finder) conflictMembers() (requests, constraints []memberRef) {
	for _, i := range f.a.Conflict {
		if m := f.a.Members[i]; m.Constraint {
			constraints = append(constraints, memberRef{m.Claim, m.Index})
		} else {
			requests = append(requests, memberRef{m.Claim, m.Index})
		}
	}
	return requests, constraints
}

// request is what is known of a request on the node.
func (f *finder) request(p memberRef) *compile.Request { return &f.a.Claims[p.claim].Requests[p.index] }

func (f *finder) constraint(p memberRef) *resourceapi.DeviceConstraint {
	return &f.claims[p.claim].Spec.Devices.Constraints[p.index]
}

// fields are the parts of a request, or of one of its subrequests, that fixes
// change.
type fields struct {
	class       *string
	count       *int64
	mode        *resourceapi.DeviceAllocationMode
	selectors   *[]resourceapi.DeviceSelector
	derived     *[]resourceapi.DeviceDerivedAttribute
	tolerations *[]resourceapi.DeviceToleration
	capacity    **resourceapi.CapacityRequirements
}

// fieldsOf are those of a request's alternatives, in their order.
func fieldsOf(r *resourceapi.DeviceRequest) []fields {
	if e := r.Exactly; e != nil {
		return []fields{{&e.DeviceClassName, &e.Count, &e.AllocationMode, &e.Selectors, &e.DerivedAttributes, &e.Tolerations, &e.Capacity}}
	}
	var all []fields
	for i := range r.FirstAvailable {
		s := &r.FirstAvailable[i]
		all = append(all, fields{&s.DeviceClassName, &s.Count, &s.AllocationMode, &s.Selectors, &s.DerivedAttributes, &s.Tolerations, &s.Capacity})
	}
	return all
}
