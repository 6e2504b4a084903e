// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/verify/evaluate"
)

// ConfirmAfter is how soon a pod that seems misaligned is checked again.
const ConfirmAfter = 500 * time.Millisecond

// Confirm runs a check, and once more after a pause where a pod seems misaligned: a
// pod that starts or ends is in disorder for a moment, and its devices are on their
// way. check lists anew each time what is expected. Only a confirmed verdict may be
// reported.
func Confirm(check func() []Result, pause func() error) ([]Result, error) {
	results := check()
	if !slices.ContainsFunc(results, isWrong) {
		return results, nil
	}
	if err := pause(); err != nil {
		return nil, err
	}
	again := map[string]Result{}
	for _, r := range check() {
		again[r.Expected.UID] = r
	}
	for i, r := range results {
		if isWrong(r) {
			second, there := again[r.Expected.UID]
			results[i] = confirmed(r, second, there)
		}
	}
	return results, nil
}

// Sleep waits for d; the error says that ctx ended first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func isWrong(r Result) bool { return r.Status == evaluate.False }

// confirmed is the result for a pod that seemed misaligned: that of the second
// check. Only that a thread ran elsewhere stays true when it came back.
func confirmed(first, second Result, there bool) Result {
	switch {
	case !there:
		first.Verdict = evaluate.Conclude([]evaluate.Finding{{State: evaluate.StateUnknown, Code: evaluate.NotRunning, What: "the pod", Why: "it is ending"}})
		return first
	case first.Reason == evaluate.ThreadOutside && second.Status == evaluate.True:
		return first
	}
	return second
}
