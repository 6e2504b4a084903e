// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/fixes"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

var (
	cases = flag.Int("cases", 1500, "how many random cases are explained; a tenth with -short")
	seed  = flag.Uint64("seed", 0, "the first case")
)

// patience is how long the scheduler's allocator may take for a case.
const patience = 5 * time.Second

// tried is a case with what checks it.
type tried struct {
	t         *testing.T
	seed      uint64
	c         explaintest.Case
	known     *snapshot.Cluster
	selectors *compile.Selectors
	late      int
}

// ask asks the scheduler's allocator.
func (x *tried) ask(known *snapshot.Cluster, node string, claims []*resourceapi.ResourceClaim) solver.Verdict {
	x.t.Helper()
	oracle := explaintest.NewOracle(known, x.selectors.Compiled())
	v, _, _ := oracle.Ask(x.t.Context(), node, claims, patience)
	if v == solver.Unknown {
		x.late++
	}
	return v
}

func (x *tried) fatalf(format string, args ...any) {
	x.t.Helper()
	text, _ := yaml.Marshal(x.c)
	x.t.Errorf(format, args...)
	x.t.Fatalf("seed %d:\n%s", x.seed, text)
}

// Of what cannot be allocated the conflict cannot either, and without any of its
// members it can; every fix, applied, allocates. So says the scheduler's
// allocator.
func TestConflictsAndFixesHold(t *testing.T) {
	n := *cases
	if testing.Short() {
		n /= 10
	}
	selectors := compile.NewSelectors()
	conflicts, proposed, helped, late := 0, map[string]int{}, 0, 0
	for i := range n {
		x := &tried{t: t, seed: *seed + uint64(i), c: explaintest.Random(*seed + uint64(i)), selectors: selectors}
		x.known = snapshot.New(x.c.Snapshot)
		evaluator := reason.NewEvaluator(compile.New(x.known, selectors), x.c.Claims)
		for _, name := range x.known.NodeNames() {
			a, err := evaluator.Evaluate(context.Background(), x.known.Node(name))
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict != solver.FitsNot && a.Verdict != solver.Aborts {
				continue
			}
			conflicts++
			x.conflict(a)
			cause := evaluator.Cause(t.Context(), a)
			if cause.Code == "" || cause.Text == "" {
				x.fatalf("%s: no cause", name)
			}
			found := fixes.Find(t.Context(), a, cause.Code, x.c.Claims, selectors, x.known.NodeNames())
			helped += min(len(found), 1)
			for _, f := range found {
				proposed[f.Kind]++
				for _, trial := range f.Trials {
					if v := x.ask(trial.Cluster, trial.Node, trial.Claims); v != solver.Fits && v != solver.Unknown {
						text, _ := yaml.Marshal(trial.Claims)
						x.fatalf("%s: %s: verdict %d on node %s with\n%s", name, f.Text, v, trial.Node, text)
					}
				}
			}
		}
		late += x.late
	}
	t.Logf("%d conflicts, %d with fixes: %v; %d questions out of time", conflicts, helped, proposed, late)
}

// conflict checks that the conflict is one, and that none of its members can be
// missed.
func (x *tried) conflict(a *reason.Answer) {
	x.t.Helper()
	name := a.Node.Node.Name
	if v := x.ask(x.known, name, x.part(a, -1)); v == solver.Fits {
		x.fatalf("%s: conflict %v can be allocated", name, a.Conflict)
	}
	for _, left := range a.Conflict {
		if v := x.ask(x.known, name, x.part(a, left)); v != solver.Fits && v != solver.Unknown {
			x.fatalf("%s: conflict %v without %d: verdict %d", name, a.Conflict, left, v)
		}
	}
}

// part is the claims of the conflict without one member. What a constraint names
// beside that is not there, which the allocator does not mind.
func (x *tried) part(a *reason.Answer, left int) []*resourceapi.ResourceClaim {
	all := make([]*resourceapi.ResourceClaim, len(x.c.Claims))
	for c, claim := range x.c.Claims {
		part := claim.DeepCopy()
		part.Spec.Devices.Requests, part.Spec.Devices.Constraints = nil, nil
		for i, m := range a.Members {
			switch {
			case m.Claim != c || i == left || !slices.Contains(a.Conflict, i):
			case m.Constraint:
				part.Spec.Devices.Constraints = append(part.Spec.Devices.Constraints, claim.Spec.Devices.Constraints[m.Index])
			default:
				part.Spec.Devices.Requests = append(part.Spec.Devices.Requests, claim.Spec.Devices.Requests[m.Index])
			}
		}
		all[c] = part
	}
	return all
}
