// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/verify/judge"
)

// ConfirmAfter is how soon what looks wrong is looked at again.
const ConfirmAfter = 500 * time.Millisecond

// Settle looks, and where a pod seems misaligned looks again after a pause: a pod
// that starts or ends is in disorder for a moment, and its devices are on their
// way. look lists what is promised anew each time. Nobody is to be told a verdict
// that has not settled.
func Settle(look func() []Result, pause func() error) ([]Result, error) {
	results := look()
	if !slices.ContainsFunc(results, isWrong) {
		return results, nil
	}
	if err := pause(); err != nil {
		return nil, err
	}
	again := map[string]Result{}
	for _, r := range look() {
		again[r.Promised.UID] = r
	}
	for i, r := range results {
		if isWrong(r) {
			second, there := again[r.Promised.UID]
			results[i] = settled(r, second, there)
		}
	}
	return results, nil
}

func isWrong(r Result) bool { return r.Status == judge.False }

// settled is what becomes of a pod that seemed misaligned: what the second look
// says. Only that a thread ran elsewhere stays true when it came back.
func settled(first, second Result, there bool) Result {
	switch {
	case !there:
		first.Verdict = judge.Conclude([]judge.Finding{{State: judge.StateUnknown, Code: judge.NotRunning, What: "the pod", Why: "it is ending"}})
		return first
	case first.Reason == judge.ThreadOutside && second.Status == judge.True:
		return first
	}
	return second
}
