// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"fmt"
	"io"
	"time"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// summary is what became of a run.
type summary struct {
	pods  int
	took  time.Duration
	seed  uint64
	heard Heard
	// asked is how often the agent was asked for a verdict; looked are its looks
	// by itself.
	asked  int
	looked verifyCounts
}

// wrong is what must not be. A run of which nothing was said proves nothing.
func (t summary) wrong() []string {
	var list []string
	for _, a := range t.heard.Alarms {
		list = append(list, a.String())
	}
	if t.looked.misaligned > 0 && len(list) == 0 {
		list = append(list, fmt.Sprintf("the agent counts %d misaligned pods and reported none", t.looked.misaligned))
	}
	if t.looked.looks == 0 || t.heard.AsClaimed == 0 {
		list = append(list, fmt.Sprintf("the agent verified %d times and reported %d pods as claimed: want some", t.looked.looks, t.heard.AsClaimed))
	}
	return list
}

func (t summary) write(w io.Writer) error {
	fmt.Fprintf(w, "\n  %d pods of %d kinds in %s, seed %d; the agent verified %d times and was asked %d times\n",
		t.pods, len(kinds), t.took.Round(time.Second), t.seed, t.looked.looks, t.asked)
	fmt.Fprintf(w, "  it reported %d pods as claimed, and could not tell of %d\n", t.heard.AsClaimed, t.heard.Unknown)
	report := harness.Report{Scenario: "alarms", Out: w, Repeat: fmt.Sprintf("--seed %d", t.seed)}
	wrong := t.wrong()
	report.Wrong(wrong...)
	if len(wrong) == 0 {
		fmt.Fprintln(w, "  ok  0 alarms")
	}
	return report.Verdict(nil)
}
