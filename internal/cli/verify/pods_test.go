// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"testing"

	"plumbline.dev/plumbline/internal/verify"
)

// An agent of before the two answers had one verdict, about the claims.
func TestAnswersOfAnOlderAgent(t *testing.T) {
	for _, test := range []struct{ verdict, wantVerdict, asClaimed string }{
		{"Aligned", "AsClaimed", "True"},
		{"Misaligned", "Misaligned", "False"},
		{"Unknown", "Unknown", "Unknown"},
	} {
		got := withAnswers(verify.Pod{Verdict: test.verdict, Reason: "ARoot", Message: "and why"})
		if got.Verdict != test.wantVerdict || got.AsClaimed != (verify.Answer{Status: test.asClaimed, Reason: "ARoot", Message: "and why"}) || got.Aligned.Status != "Unknown" {
			t.Errorf("%s: %+v", test.verdict, got)
		}
	}
	now := verify.Pod{Verdict: "AsClaimed", AsClaimed: verify.Answer{Status: "True"}, Aligned: verify.Answer{Status: "False"}}
	if got := withAnswers(now); got.Verdict != now.Verdict || got.AsClaimed != now.AsClaimed || got.Aligned != now.Aligned {
		t.Errorf("a whole report became %+v", got)
	}
}
