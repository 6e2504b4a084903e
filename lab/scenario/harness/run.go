// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Run frames a scenario: cleanUp removes what an earlier run left that was killed, and
// after do, however that ended, what it made. The last cleanUp has so much time, also
// where the context is over.
func Run(ctx context.Context, limit time.Duration, cleanUp, do func(context.Context) error) (err error) {
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		err = errors.Join(err, cleanUp(clean))
	}()
	if err := cleanUp(ctx); err != nil {
		return err
	}
	return do(ctx)
}

// ErrFailed is what a scenario ends with that found something wrong. What it was has
// been printed by then.
var ErrFailed = errors.New("FAIL")

// Report prints what a scenario finds, and in the end whether it passed.
type Report struct {
	// Scenario is its name in the verdict.
	Scenario string
	Out      io.Writer
	// Repeat are the flags that repeat the run, such as "--seed 7"; empty for none.
	Repeat string

	wrong int
}

// Finding prints one finding.
func (r *Report) Finding(ok bool, what, format string, args ...any) {
	word := "ok   "
	if !ok {
		word = "WRONG"
		r.wrong++
	}
	fmt.Fprintf(r.Out, "  %s  %s: %s\n", word, what, fmt.Sprintf(format, args...))
}

// Wrong prints what must not be, a line each.
func (r *Report) Wrong(lines ...string) {
	r.wrong += len(lines)
	for _, line := range lines {
		fmt.Fprintf(r.Out, "  WRONG  %s\n", line)
	}
}

// Verdict prints whether the scenario passed. It returns err, or ErrFailed where
// something is wrong and there is no other error.
func (r *Report) Verdict(err error) error {
	if err == nil && r.wrong > 0 {
		err = fmt.Errorf("%s: %w", r.Scenario, ErrFailed)
	}
	switch {
	case err == nil:
		fmt.Fprintf(r.Out, "\n%s: PASS\n", r.Scenario)
	case r.Repeat != "":
		fmt.Fprintf(r.Out, "\n%s: FAIL (again with %s)\n", r.Scenario, r.Repeat)
	default:
		fmt.Fprintf(r.Out, "\n%s: FAIL\n", r.Scenario)
	}
	return err
}

// progressEvery is how often a run that goes well prints its progress.
const progressEvery = 30 * time.Second

// Progress prints from time to time how far a run has come. It may be used by several
// goroutines.
type Progress struct {
	out         io.Writer
	began, last time.Time
	mu          sync.Mutex
}

// NewProgress returns the progress of a run that begins now.
func NewProgress(out io.Writer) *Progress {
	now := time.Now()
	return &Progress{out: out, began: now, last: now}
}

// Done says that so many are done.
func (p *Progress) Done(n, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.out, "  · %d of %d after %s\n", n, of, time.Since(p.began).Round(time.Second))
}
