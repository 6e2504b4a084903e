// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/compile"
	. "plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/fixes"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// TestOnePendingClaim replays every stop of docs/one-pending-claim.md: the two GPUs
// that are free are below roots whose NICs other claims have.
func TestOnePendingClaim(t *testing.T) {
	s := A3(t, 1)
	s.Claims = append(s.Claims,
		Holding("train-1", gpuID(0), gpuID(1), gpuID(2), gpuID(3), gpuID(4), gpuID(5), nicID(0), nicID(1)),
		Holding("train-2", nicID(6), nicID(7)))
	claim := Claim("train-3", []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu", "nic")}, gpus(1), nics(1))
	known, selectors := snapshot.New(s), compile.NewSelectors()
	evaluator := reason.NewEvaluator(compile.New(known, selectors), []*resourceapi.ResourceClaim{claim})
	answer, err := evaluator.Evaluate(t.Context(), known.Node(a3))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Verdict != solver.FitsNot {
		t.Fatalf("the solver says %v, want that it does not fit", answer.Verdict)
	}
	cause := evaluator.Cause(t.Context(), answer)
	report, _ := text(t, s, explain.OfClaim(claim))
	docstest.Follow(t, "one-pending-claim.md", []docstest.Stop{
		{Name: "claim", Text: asYAML(t, claim.Spec)},
		{Name: "compile", Text: fitsOf(answer)},
		{Name: "solve", Text: searched(answer)},
		{Name: "conflict", Text: conflictOf(answer)},
		{Name: "cause", Text: asYAML(t, cause)},
		{Name: "fixes", Text: asYAML(t, fixes.Find(t.Context(), answer, cause.Code, evaluator.Claims(), selectors, nil))},
		{Name: "report", Text: reportOf(t, report)},
	})
}

// fitsOf counts for each request the devices that are for it, and why others are not.
func fitsOf(a *reason.Answer) string {
	names := map[compile.Obstacle]string{
		compile.None: "free for it", compile.OtherClass: "of another class", compile.NotSelected: "not selected", compile.Taken: "held by others",
	}
	var out strings.Builder
	for _, claim := range a.Claims {
		for _, request := range claim.Requests {
			count := map[compile.Obstacle]int{}
			for _, why := range request.Alternatives[0].Why {
				count[why.Obstacle]++
			}
			fmt.Fprintf(&out, "%s:", request.Name)
			for obstacle := range compile.PartsTaken + 1 {
				if count[obstacle] > 0 {
					fmt.Fprintf(&out, " %d %s,", count[obstacle], names[obstacle])
				}
			}
			fmt.Fprintf(&out, " of %d devices\n", len(a.Devices))
		}
	}
	return out.String()
}

// searched is what the solver says of the problem, and of the problem without one of
// its members.
func searched(a *reason.Answer) string {
	s := solver.New(a.Problem)
	word := map[solver.Verdict]string{solver.Fits: "fits", solver.FitsNot: "does not fit"}
	out := fmt.Sprintf("all: %s\n", word[s.Solve(s.All()).Verdict])
	for i, m := range s.Members() {
		on := s.All()
		on[i] = false
		out += fmt.Sprintf("without %s: %s\n", a.MemberName(m), word[s.Solve(on).Verdict])
	}
	return out
}

func conflictOf(a *reason.Answer) string {
	var names []string
	for _, i := range a.Conflict {
		names = append(names, a.MemberName(a.Members[i]))
	}
	return fmt.Sprintf("%s\nno smaller one: %t\n", strings.Join(names, "\n"), a.Smallest)
}

func reportOf(t *testing.T, r *explain.Report) string {
	t.Helper()
	var out strings.Builder
	if err := r.Text(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func asYAML(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
