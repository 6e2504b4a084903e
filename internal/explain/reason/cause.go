// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"context"
	"fmt"
	"strings"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// Codes of causes, for programs.
const (
	// Held: devices that would do are held by other claims.
	Held = "held"
	// Tainted: devices that would do carry a taint that is not tolerated.
	Tainted = "tainted"
	// TooFew: the node does not have so many.
	TooFew = "too-few-devices"
	// ClassAbsent: the device class does not exist.
	ClassAbsent = "class-absent"
	// DriverAbsent: the driver publishes nothing for the node.
	DriverAbsent = "driver-absent"
	// PoolIncomplete: slices of a pool are missing.
	PoolIncomplete = "pool-incomplete"
	// PoolInvalid: the slices of a pool contradict each other.
	PoolInvalid = "pool-invalid"
	// SelectorMatchesNothing: no device of the class is selected.
	SelectorMatchesNothing = "selector-matches-nothing"
	// SelectorAborts: a selector cannot be evaluated for a device, which ends
	// the allocation on all nodes.
	SelectorAborts = "selector-aborts"
	// DerivedAborts: a derived attribute cannot be evaluated for a device, which ends
	// the allocation on all nodes.
	DerivedAborts = "derived-attribute-aborts"
	// AttributeUnknown: no device of the cluster has an attribute of the name.
	AttributeUnknown = "attribute-unknown"
	// AttributeAbsent: the devices of a request do not have the attribute that a
	// constraint compares.
	AttributeAbsent = "attribute-absent"
	// AttributeTypes: the values that a constraint compares are of two types.
	AttributeTypes = "attribute-types-differ"
	// ListAttribute: lists are compared, and the gate for it is off.
	ListAttribute = "list-attribute"
	// NoCommonValue: no value is to be had for all requests of a constraint.
	NoCommonValue = "no-common-value"
	// TooFewValues: more devices have to differ than there are values.
	TooFewValues = "too-few-values"
	// CountAgainstConstraint: there are values, but not enough devices with one.
	CountAgainstConstraint = "count-against-constraint"
	// Capacity: no device gives out as much.
	Capacity = "capacity"
	// PartitionsTaken: other parts of the same hardware are given out.
	PartitionsTaken = "partitions-taken"
	// TooManyResults: a claim can have only so many devices.
	TooManyResults = "too-many-results"
	// GateOff: a feature gate is off.
	GateOff = "feature-gate-off"
	// AllAgainstConstraint: all devices are wanted, and not all meet a
	// constraint, which ends the allocation on all nodes.
	AllAgainstConstraint = "all-against-constraint"
	// Malformed: the allocator refuses the request or constraint as it is written.
	Malformed = "malformed"
	// NotJudged: the claim or a device has something that this program does not
	// implement.
	NotJudged = "not-judged"
)

// Cause is why claims do not fit on a node.
type Cause struct {
	Code string
	// Text is one sentence.
	Text string
	// Lines say of each request of the conflict what there is for it.
	Lines []string
}

// Cause finds why the claims of an answer do not fit.
func (k *Evaluator) Cause(ctx context.Context, a *Answer) Cause {
	switch a.Verdict {
	case solver.Fits:
		return Cause{}
	case solver.Unknown:
		text := "the search was cut short"
		if len(a.Unsupported) > 0 {
			text = strings.Join(a.Unsupported, "; ")
		}
		return Cause{Code: NotJudged, Text: text}
	case solver.Aborts:
		cause := a.aborts()
		cause.Lines = a.lines()
		return cause
	}
	cause := a.FreeDeviceCause()
	if a.independentOfHolders(cause.Code) {
		cause.Lines = a.lines()
		return cause
	}
	// Where the claims would fit if no claim held a device, devices are held; where they
	// would if no device had a taint, they are tainted.
	none := k.fitsIn(ctx, a, a.Cluster.WithClaims(nil))
	gates := a.Cluster.Gates
	gates.DeviceTaints = false
	untainted := k.fitsIn(ctx, a, a.Cluster.WithGates(gates))
	switch {
	case none && untainted && a.countObstacles(compile.Tainted) > a.countObstacles(compile.Taken, compile.TooLittleLeft, compile.PartsTaken),
		untainted && !none:
		cause.Code = Tainted
	case none:
		cause.Code = Held
	case untaintedAndFree(ctx, k, a):
		cause.Code = Held
	}
	cause.Lines = a.lines()
	return cause
}

// independentOfHolders says whether a cause stays one whatever other claims hold.
func (a *Answer) independentOfHolders(code string) bool {
	switch code {
	case NoCommonValue, TooFewValues, CountAgainstConstraint, TooFew, PartitionsTaken, Capacity:
		return false
	}
	return true
}

// fitsIn says whether the requests and constraints of the conflict fit on the same node
// of another cluster.
func (k *Evaluator) fitsIn(ctx context.Context, a *Answer, other *snapshot.Cluster) bool {
	n, err := compile.New(other, k.compiler.Selectors()).Compile(ctx, a.Node.Node, k.claims)
	if err != nil || len(n.Unsupported) > 0 {
		return false
	}
	s := solver.New(n.Problem)
	mask := make([]bool, len(s.Members()))
	for _, m := range a.Conflict {
		mask[m] = true
	}
	return s.Solve(mask).Verdict == solver.Fits
}

func untaintedAndFree(ctx context.Context, k *Evaluator, a *Answer) bool {
	gates := a.Cluster.Gates
	gates.DeviceTaints = false
	return k.fitsIn(ctx, a, a.Cluster.WithClaims(nil).WithGates(gates))
}

// countObstacles counts the devices of the conflict's requests that have one of some
// obstacles.
func (a *Answer) countObstacles(which ...compile.Obstacle) int {
	n := 0
	for _, r := range a.conflictRequests() {
		for i := range r.Alternatives {
			for _, why := range r.Alternatives[i].Why {
				for _, o := range which {
					if why.Obstacle == o {
						n++
					}
				}
			}
		}
	}
	return n
}

// aborts says what ends the allocation with an error.
func (a *Answer) aborts() Cause {
	c := a.Culprit
	if c == nil {
		return Cause{Code: Malformed, Text: "the allocator ends with an error"}
	}
	name := a.MemberName(c.Member)
	if c.Member.Constraint {
		constraint := &a.Claims[c.Member.Claim].Claim.Spec.Devices.Constraints[c.Member.Index]
		code := Malformed
		if attribute, _ := compile.Attribute(constraint); attribute != "" {
			code = GateOff
		}
		return Cause{Code: code, Text: fmt.Sprintf("%s is refused on every node: %s", name, a.ConstraintRefused(constraint))}
	}
	alternative := &a.Claims[c.Member.Claim].Requests[c.Member.Index].Alternatives[c.Alternative]
	switch {
	case c.Device < 0 && alternative.Refused == "":
		return Cause{Code: TooManyResults, Text: fmt.Sprintf(
			"%s is one too many: with it claim %s wants at least %d devices, and a claim can have %d",
			name, a.Claims[c.Member.Claim].Claim.Name, a.least(c.Member.Claim, c.Member.Index), a.Problem.MaxResults)}
	case c.Device < 0:
		code := map[compile.Refusal]string{
			compile.GateOff: GateOff, compile.ClassAbsent: ClassAbsent, compile.PoolUnusable: a.unusablePool(), compile.NotEvaluated: SelectorAborts,
		}[alternative.Refusal]
		if code == "" {
			code = Malformed
		}
		return Cause{Code: code, Text: alternative.Name + " is refused on every node: " + alternative.Refused}
	case c.Underivable:
		return a.underivable(c, alternative)
	case alternative.All:
		return Cause{Code: AllAgainstConstraint, Text: fmt.Sprintf(
			"%s asks for all devices, and a constraint does not take %s: that ends the scheduling of the pod on every node",
			alternative.Name, a.DeviceName(c.Device))}
	}
	why := alternative.Why[c.Device]
	if why.Obstacle == compile.CapacityFails {
		return Cause{Code: Capacity, Text: fmt.Sprintf("%s: what it takes of %s cannot be computed, which ends the scheduling of the pod on every node: %s",
			alternative.Name, a.DeviceName(c.Device), why.Detail)}
	}
	return Cause{Code: SelectorAborts, Text: fmt.Sprintf(
		"%s cannot be evaluated for %s, which ends the scheduling of the pod on every node: %s",
		selectorName(alternative, why), a.DeviceName(c.Device), why.Detail)}
}

// unusablePool is the code for the first pool that cannot be used.
func (a *Answer) unusablePool() string {
	for _, p := range a.Pools {
		if p.Incomplete {
			return PoolIncomplete
		}
		if p.Invalid != "" {
			return PoolInvalid
		}
	}
	return PoolIncomplete
}

// least is how many devices the requests of a claim up to one want at least.
func (a *Answer) least(claim, last int) int {
	sum := 0
	for r := range last + 1 {
		fewest := -1
		for _, alternative := range a.Problem.Claims[claim].Requests[r].Alternatives {
			if fewest < 0 || alternative.Count < fewest {
				fewest = alternative.Count
			}
		}
		sum += max(fewest, 0)
	}
	return sum
}

func selectorName(a *compile.Alternative, why compile.Why) string {
	if why.OfClass {
		return fmt.Sprintf("selector %d of device class %s, which %s wants,", why.Selector, a.Class, a.Name)
	}
	return fmt.Sprintf("selector %d of %s", why.Selector, a.Name)
}
