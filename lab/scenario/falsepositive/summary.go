// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"fmt"
	"io"
	"time"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// summary is the result of a run.
type summary struct {
	pods    int
	took    time.Duration
	seed    uint64
	reports Reports
	// asked is how often the agent was asked for a verdict; verified counts what it
	// verified by itself.
	asked    int
	verified verifyCounts
}

// wrong is what must not be. A run without any report proves nothing.
func (t summary) wrong() []string {
	var list []string
	for _, a := range t.reports.Alarms {
		list = append(list, a.String())
	}
	if t.verified.misaligned > 0 && len(list) == 0 {
		list = append(list, fmt.Sprintf("the agent counts %d misaligned pods and reported none", t.verified.misaligned))
	}
	if t.verified.verifications == 0 || t.reports.AsClaimed == 0 {
		list = append(list, fmt.Sprintf("the agent verified %d times and reported %d pods as claimed: want some", t.verified.verifications, t.reports.AsClaimed))
	}
	return list
}

func (t summary) write(w io.Writer) error {
	fmt.Fprintf(w, "\n  %d pods of %d kinds in %s, seed %d; the agent verified %d times and was asked %d times\n",
		t.pods, len(kinds), t.took.Round(time.Second), t.seed, t.verified.verifications, t.asked)
	fmt.Fprintf(w, "  it reported %d pods as claimed, and could not tell of %d\n", t.reports.AsClaimed, t.reports.Unknown)
	report := harness.Report{Scenario: "alarms", Out: w, Repeat: fmt.Sprintf("--seed %d", t.seed)}
	wrong := t.wrong()
	report.Wrong(wrong...)
	if len(wrong) == 0 {
		fmt.Fprintln(w, "  ok  0 alarms")
	}
	return report.Verdict(nil)
}
