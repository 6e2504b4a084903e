// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"plumbline.dev/plumbline/lab/scenario/falsepositive"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Summary is the result of a run.
type Summary struct {
	// Seed repeats the run, Cycles is how many were to be run.
	Seed   uint64
	Cycles int
	// Done counts the cycles lived to their end, by fault and phase.
	Done map[Fault]map[Phase]int
	// Skipped are cycles whose fault could not happen, such as a rename in a
	// pod that another fault was ending.
	Skipped []string
	// Wrong is what must not be.
	Wrong []string
	// Faults are the last to happen, with when: what is wrong with one pod may
	// come of another's.
	Faults []string
	// Samples is how many were taken of the node.
	Samples int
	// Unused counts the network namespaces that containerd, killed while it made
	// them, left behind.
	Unused int
	// AsClaimed are the pods that verification reported as claimed.
	AsClaimed int

	faults []Fault
	began  time.Time
}

func newSummary(c Config) Summary {
	return Summary{Seed: c.Seed, Cycles: c.Cycles, Done: map[Fault]map[Phase]int{}, faults: c.Faults, began: time.Now()}
}

func (t *Summary) done(c Cycle) {
	if t.Done[c.Fault] == nil {
		t.Done[c.Fault] = map[Phase]int{}
	}
	t.Done[c.Fault][c.Phase]++
}

// all is how many cycles were lived to their end.
func (t *Summary) all() int {
	all := 0
	for _, d := range t.Done {
		all += d[Creating] + d[Running] + d[Deleting]
	}
	return all
}

// fault records one that happens.
func (t *Summary) fault(c Cycle) {
	t.Faults = append(t.Faults, fmt.Sprintf("%s after the start: %s", time.Since(t.began).Round(time.Second/10), c))
	t.Faults = t.Faults[max(0, len(t.Faults)-rememberedFaults):]
}

// rememberedFaults are about those of a minute.
const rememberedFaults = 30

// addAlarms adds what verification reported of the pods. An alarm is false unless the
// pod's NIC was taken from it: by the fault itself, or with its sandbox.
func (t *Summary) addAlarms(reports falsepositive.Reports, plan []Cycle) {
	t.AsClaimed = reports.AsClaimed
	bare := map[string]bool{}
	for _, c := range plan {
		bare[podName(c)] = c.Fault == LinkRemoved || c.Fault == SandboxRecreated
	}
	for _, a := range reports.Alarms {
		if !bare[a.Pod] {
			t.Wrong = append(t.Wrong, "false alarm: "+a.String())
		}
	}
}

// write prints the summary and, with err, whether the run passed.
func (t *Summary) write(w io.Writer, err error) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "  FAULT\tCREATING\tRUNNING\tDELETING\n")
	for _, f := range t.faults {
		d := t.Done[f]
		fmt.Fprintf(table, "  %s\t%d\t%d\t%d\n", f, d[Creating], d[Running], d[Deleting])
	}
	_ = table.Flush()
	fmt.Fprintf(w, "\n  %d of %d cycles in %s, seed %d, %d looks at the node\n", t.all(), t.Cycles,
		time.Since(t.began).Round(time.Second), t.Seed, t.Samples)
	fmt.Fprintf(w, "  verification reported %d pods as claimed\n", t.AsClaimed)
	for _, s := range t.Skipped {
		fmt.Fprintf(w, "  without its fault: %s\n", s)
	}
	if t.Unused > 0 {
		fmt.Fprintf(w, "  not ours: containerd, killed while it made sandboxes, left network namespaces that nobody used: %d\n", t.Unused)
	}
	report := harness.Report{Scenario: "soak", Out: w, Repeat: fmt.Sprintf("--seed %d", t.Seed)}
	report.Wrong(t.Wrong...)
	if len(t.Wrong) > 0 {
		for _, f := range t.Faults {
			fmt.Fprintf(w, "  fault  %s\n", f)
		}
	} else {
		fmt.Fprintln(w, "  ok  0 NICs lost, 0 namespaces, files and addresses leaked, no pod without its NIC, no false alarm")
	}
	return report.Verdict(err)
}
