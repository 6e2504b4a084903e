// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// Kernel is where observations come from; *collect.Reader is one.
type Kernel interface {
	Scan(ctx context.Context, targets []collect.Target, detail bool) []collect.Pod
	Interrupts(a model.PCIAddress) []collect.Interrupt
	// Unanswered is how many reads of pods were given up and still wait.
	Unanswered() int
}

// Result is one pod: what was expected of it, what was observed, and the verdict.
type Result struct {
	Expected expect.Pod
	Observed collect.Pod
	evaluate.Outcome
	// Interrupts are those of its NICs; nil without detail.
	Interrupts map[model.PCIAddress][]collect.Interrupt
}

// Check observes the pods of one node together and evaluates them, in their order. In
// detail it also reads what no verdict depends on: interrupts, and where memory
// lies.
func Check(ctx context.Context, m *model.Machine, kernel Kernel, expected []expect.Pod, detail bool) []Result {
	near := nearest.New(m)
	targets := make([]collect.Target, len(expected))
	for i, p := range expected {
		targets[i] = target(p)
	}
	results := make([]Result, len(expected))
	for i, observed := range kernel.Scan(ctx, targets, detail) {
		results[i] = Result{Expected: expected[i], Observed: observed, Outcome: evaluate.Pod(near, expected[i], observed)}
	}
	exclusive(results)
	if detail {
		for i := range results {
			results[i].Interrupts = interrupts(kernel, results[i].Components)
		}
	}
	return results
}

func target(p expect.Pod) collect.Target {
	t := collect.Target{UID: p.UID}
	if p.Ended {
		return t
	}
	for _, c := range p.Containers {
		t.Containers = append(t.Containers, collect.TargetContainer{Name: c.Name, ID: c.ID})
	}
	for _, claim := range p.Claims {
		for _, d := range claim.Devices {
			if d.Admin {
				continue
			}
			t.Addresses = t.Addresses || d.Link != nil && len(d.Addresses) > 0
			if function := d.Function(); function != nil && d.RDMAGiven {
				t.RDMA = append(t.RDMA, *function)
			}
			if d.PCI != nil && d.Network.SetsVF() {
				t.VirtualFunctions = append(t.VirtualFunctions, *d.PCI)
			}
		}
	}
	return t
}

func interrupts(kernel Kernel, components []evaluate.Component) map[model.PCIAddress][]collect.Interrupt {
	found := map[model.PCIAddress][]collect.Interrupt{}
	for _, t := range components {
		if t.Kind == expect.NIC && t.PCI != nil {
			found[*t.PCI] = kernel.Interrupts(*t.PCI)
		}
	}
	return found
}
