// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/printable"
)

// ErrOther is of two reports that measured different things.
var ErrOther = errors.New("the reports are no comparison")

// WriteComparison writes what two reports say of the same question. They were not measured
// by turns, so that only their ratios compare, each of which was.
func WriteComparison(out io.Writer, first, second *Report) error {
	if err := comparable(first, second); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "bench %s\tFIRST\tSECOND\n", printable.Text(first.Kind))
	for _, row := range []struct {
		name string
		of   func(*Report) string
	}{
		{"started", func(r *Report) string { return r.Started.UTC().Format("2006-01-02 15:04") }},
		{first.A.Name, func(r *Report) string { return r.number(r.Verdict.MedianA) }},
		{first.B.Name, func(r *Report) string { return r.number(r.Verdict.MedianB) }},
		{first.B.Name + " by " + first.A.Name, func(r *Report) string {
			return fmt.Sprintf("%.3f (%.3f to %.3f)", r.Verdict.Ratio, *r.Verdict.Low, *r.Verdict.High)
		}},
		{"verdict", func(r *Report) string { return string(r.Verdict.Answer) }},
		{"turns", func(r *Report) string { return fmt.Sprintf("%d, %d thrown out", r.Verdict.Turns, r.ThrownOut) }},
		{"tool", func(r *Report) string { return r.Versions.Tool }},
		{"plumbline", func(r *Report) string { return r.Versions.Plumbline }},
	} {
		fmt.Fprintf(w, "%s\t%s\t%s\n", printable.Text(row.name), printable.Text(row.of(first)), printable.Text(row.of(second)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	said := "no difference seen: the intervals of the ratio overlap"
	switch {
	case *second.Verdict.Low > *first.Verdict.High:
		said = "the second's ratio is higher: the intervals do not overlap"
	case *second.Verdict.High < *first.Verdict.Low:
		said = "the second's ratio is lower: the intervals do not overlap"
	}
	_, err := fmt.Fprintf(out, "\n%s\nthe medians were not measured by turns, and say nothing of each other\n", said)
	return err
}

func comparable(a, b *Report) error {
	for _, one := range []struct{ what, a, b string }{
		{"kind", a.Kind, b.Kind}, {"variable", string(a.Variable), string(b.Variable)},
		{"figure", a.Figure.Name, b.Figure.Name}, {"unit", a.Figure.Unit, b.Figure.Unit},
		{"first arm", a.A.Name, b.A.Name}, {"second arm", a.B.Name, b.B.Name},
		{"seconds", fmt.Sprint(a.Seconds), fmt.Sprint(b.Seconds)},
		{"iterations", fmt.Sprint(a.Iterations), fmt.Sprint(b.Iterations)}, {"bytes", fmt.Sprint(a.Bytes), fmt.Sprint(b.Bytes)},
		{"repeats", fmt.Sprint(max(a.Repeats, 1)), fmt.Sprint(max(b.Repeats, 1))},
	} {
		if one.a != one.b {
			return fmt.Errorf("%w: %s %q and %q", ErrOther, one.what, one.a, one.b)
		}
	}
	for i, r := range []*Report{a, b} {
		if r.Verdict.Low == nil || r.Verdict.High == nil {
			return fmt.Errorf("%w: report %d has no interval: %s", ErrOther, i+1, r.Verdict.Answer)
		}
	}
	for _, arm := range []struct{ a, b Arm }{{a.A, b.A}, {a.B, b.B}} {
		if (len(arm.a.Devices) == 0) != (len(arm.b.Devices) == 0) || (arm.a.Interface == plan.PodNetwork) != (arm.b.Interface == plan.PodNetwork) {
			return fmt.Errorf("%w: arm %s is a claimed NIC in one and the pods' network in the other", ErrOther, arm.a.Name)
		}
	}
	return nil
}
