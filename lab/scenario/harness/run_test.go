// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRunCleansUpBeforeAndAfter(t *testing.T) {
	errDo, errClean := errors.New("do"), errors.New("clean")
	for name, tt := range map[string]struct {
		doErr    error
		cleanErr []error
		want     []string
	}{
		"well":          {cleanErr: []error{nil, nil}, want: []string{"clean", "do", "clean"}},
		"do fails":      {doErr: errDo, cleanErr: []error{nil, nil}, want: []string{"clean", "do", "clean"}},
		"first cleanup": {cleanErr: []error{errClean, nil}, want: []string{"clean", "clean"}},
		"last cleanup":  {doErr: errDo, cleanErr: []error{nil, errClean}, want: []string{"clean", "do", "clean"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			var steps []string
			cleaned := 0
			err := Run(ctx, time.Minute, func(ctx context.Context) error {
				steps, cleaned = append(steps, "clean"), cleaned+1
				if ctx.Err() != nil {
					t.Errorf("clean-up %d has no time", cleaned)
				}
				return tt.cleanErr[cleaned-1]
			}, func(context.Context) error {
				steps = append(steps, "do")
				interrupt()
				return tt.doErr
			})
			if !slices.Equal(steps, tt.want) {
				t.Errorf("%q, want %q", steps, tt.want)
			}
			for _, want := range append(tt.cleanErr, tt.doErr) {
				if want != nil && !errors.Is(err, want) {
					t.Errorf("%v, want %v in it", err, want)
				}
			}
		})
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	r := Report{Scenario: "soak", Out: &out, Repeat: "--seed 7"}
	r.Finding(true, "pod a", "%d CPUs", 2)
	if err := r.Verdict(nil); err != nil {
		t.Error(err)
	}
	r.Finding(false, "pod b", "none")
	r.Wrong("one", "two")
	if err := r.Verdict(nil); !errors.Is(err, ErrFailed) || err.Error() != "soak: FAIL" {
		t.Error(err)
	}
	want := "  ok     pod a: 2 CPUs\n\nsoak: PASS\n" +
		"  WRONG  pod b: none\n  WRONG  one\n  WRONG  two\n\nsoak: FAIL (again with --seed 7)\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	r = Report{Scenario: "cpus", Out: &out}
	if err := r.Verdict(context.Canceled); !errors.Is(err, context.Canceled) || out.String() != "\ncpus: FAIL\n" {
		t.Errorf("%v: %q", err, out.String())
	}
}
