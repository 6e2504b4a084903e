// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package misalign

import (
	"slices"
	"testing"

	"plumbline.dev/plumbline/internal/verify"
)

func TestNotOwnSocket(t *testing.T) {
	out := "socket /run/plumbline/agent.sock\nsocket /var/run/nri/nri.sock\nfile /var/lib/plumbline/x\n\nmount /host/sys\n"
	want := []string{"socket /var/run/nri/nri.sock", "file /var/lib/plumbline/x", "mount /host/sys"}
	if got := notOwnSocket(out); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSummary(t *testing.T) {
	answer := map[string]verify.Pod{
		"b": {Verdict: "AsClaimed", Reason: "AsClaimed", AsClaimed: verify.Answer{Status: "True"}},
		"a": {Verdict: "Misaligned", Reason: "CPUsWrong", AsClaimed: verify.Answer{Status: "False"}},
	}
	if got, want := summary(answer), "a Misaligned (CPUsWrong), b AsClaimed (AsClaimed)"; got != want || allAsClaimed(answer) {
		t.Errorf("%q, want %q, and not all as claimed", got, want)
	}
	delete(answer, "a")
	if !allAsClaimed(answer) {
		t.Error("a pod that got what it claimed and could be nearer is as claimed")
	}
}
