// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"slices"
	"testing"

	"plumbline.dev/plumbline/internal/verify"
)

func TestExcess(t *testing.T) {
	out := "socket /run/plumbline/agent.sock\nsocket /var/run/nri/nri.sock\nfile /var/lib/plumbline/x\n\nmount /host/sys\n"
	want := []string{"socket /var/run/nri/nri.sock", "file /var/lib/plumbline/x", "mount /host/sys"}
	if got := excess(out); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSummary(t *testing.T) {
	answer := map[string]verify.Pod{"b": {Verdict: "Aligned", Reason: "AsClaimed"}, "a": {Verdict: "Misaligned", Reason: "CPUsWrong"}}
	if got, want := summary(answer), "a Misaligned (CPUsWrong), b Aligned (AsClaimed)"; got != want || allAligned(answer) {
		t.Errorf("%q, want %q, and not all aligned", got, want)
	}
}
