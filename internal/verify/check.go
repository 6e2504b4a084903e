// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"fmt"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/facts"
	"plumbline.dev/plumbline/internal/verify/judge"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// Kernel is where facts come from; *facts.Reader is one.
type Kernel interface {
	Look(ctx context.Context, targets []facts.Target, detail bool) []facts.Pod
	Interrupts(a model.PCIAddress) []facts.Interrupt
	// Unanswered is how many looks into pods were given up and wait to this day.
	Unanswered() int
}

// Result is what became of one pod.
type Result struct {
	Promised expect.Pod
	Found    facts.Pod
	judge.Outcome
	// Interrupts are those of its NICs; nil without detail.
	Interrupts map[model.PCIAddress][]facts.Interrupt
}

// Check looks at pods of one node together and judges them, in their order. In
// detail it also reads what no verdict depends on: interrupts, and where memory
// lies.
func Check(ctx context.Context, m *model.Machine, kernel Kernel, promised []expect.Pod, detail bool) []Result {
	near := nearest.On(m)
	targets := make([]facts.Target, len(promised))
	for i, p := range promised {
		targets[i] = target(p)
	}
	results := make([]Result, len(promised))
	for i, found := range kernel.Look(ctx, targets, detail) {
		results[i] = Result{Promised: promised[i], Found: found, Outcome: judge.Judge(near, promised[i], found)}
	}
	exclusive(results)
	if detail {
		for i := range results {
			results[i].Interrupts = interrupts(kernel, results[i].Things)
		}
	}
	return results
}

func target(p expect.Pod) facts.Target {
	t := facts.Target{UID: p.UID}
	if p.Ended {
		return t
	}
	for _, c := range p.Containers {
		t.Containers = append(t.Containers, facts.TargetContainer{Name: c.Name, ID: c.ID})
	}
	return t
}

// exclusive convicts containers of different pods that share CPUs of claims.
func exclusive(results []Result) {
	holder := map[int]*Result{}
	for i := range results {
		r := &results[i]
		for _, t := range r.Things {
			if t.Kind != expect.CPUs || t.Claim == "" {
				continue
			}
			for _, cpu := range t.CPUs.List() {
				other, taken := holder[cpu]
				if !taken {
					holder[cpu] = r
				}
				if taken && other != r {
					share(r, other, t.Claim, cpu)
					share(other, r, "", cpu)
					break
				}
			}
		}
	}
}

func share(r, other *Result, claim string, cpu int) {
	holder := other.Promised.Namespace + "/" + other.Promised.Name
	r.Findings = append(r.Findings, judge.Finding{
		State: judge.StateWrong, Code: judge.CPUsShared, Claim: claim, What: "no CPU serves two claims",
		Why:     fmt.Sprintf("CPU %d is %s's too", cpu, holder),
		Differs: &judge.Difference{Of: "the pod", Attribute: fmt.Sprintf("CPU %d", cpu), Claimed: "for it alone", Observed: holder + " has it too"},
	})
	r.Verdict = judge.Conclude(r.Findings)
}

func interrupts(kernel Kernel, things []judge.Thing) map[model.PCIAddress][]facts.Interrupt {
	found := map[model.PCIAddress][]facts.Interrupt{}
	for _, t := range things {
		if t.Kind == expect.NIC && t.PCI != nil {
			found[*t.PCI] = kernel.Interrupts(*t.PCI)
		}
	}
	return found
}
