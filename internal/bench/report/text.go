// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/stats"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer) error {
	fmt.Fprintf(out, "bench %s: %s against %s, which differ in the %s\n\n", printable.Text(r.Kind), printable.Text(r.B.Name), printable.Text(r.A.Name), printable.Text(string(r.Variable)))
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	row := func(name string, of func(Letter, Arm) string) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, of(A, r.A), of(B, r.B))
	}
	row("", func(_ Letter, a Arm) string { return printable.Text(a.Name) })
	for _, pod := range r.Pods {
		row(printable.Text(pod.Role), func(_ Letter, a Arm) string { return onSide(a, pod.Role) })
	}
	for _, at := range []struct {
		name string
		of   func(counted []float64, median float64) float64
	}{
		{"lowest", func(counted []float64, _ float64) float64 { return counted[0] }},
		{"median", func(_ []float64, median float64) float64 { return median }},
		{"highest", func(counted []float64, _ float64) float64 { return counted[len(counted)-1] }},
	} {
		row(at.name, func(l Letter, _ Arm) string {
			counted := r.values(l)
			if len(counted) == 0 {
				return "-"
			}
			return r.number(at.of(counted, map[Letter]float64{A: r.Verdict.MedianA, B: r.Verdict.MedianB}[l]))
		})
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", r.Sentence())
	r.writeThrownOut(out)
	_, err := fmt.Fprintf(out, "%s\n", r.made())
	return err
}

// onSide are an arm's devices on one side, and where it has no NIC of its own there, that.
func onSide(a Arm, role string) string {
	var names []string
	for _, d := range a.Devices {
		if d.Role == role {
			names = append(names, printable.Text(d.Pool+"/"+d.Device))
		}
	}
	if a.Interface == plan.PodNetwork {
		names = append(names, "the pod's own "+plan.PodNetwork)
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}

// values are an arm's in the turns that count, the lowest first.
func (r *Report) values(l Letter) []float64 {
	var values []float64
	for _, turn := range r.Turns() {
		values = append(values, map[Letter]float64{A: turn.A, B: turn.B}[l])
	}
	slices.Sort(values)
	return values
}

func (r *Report) number(value float64) string {
	return fmt.Sprintf("%.2f %s", value, printable.Text(r.Figure.Unit))
}

// Sentence is the verdict in words.
func (r *Report) Sentence() string {
	v := r.Verdict
	a, b := printable.Text(r.A.Name), printable.Text(r.B.Name)
	if v.Answer == stats.TooFew || v.Low == nil || v.High == nil {
		return fmt.Sprintf("too few runs: %s, and fewer than %d say nothing", plural.Count(v.Turns, "turn counts", "turns count"), stats.FewestPairs)
	}
	within := fmt.Sprintf("%s is %.3f times %s, between %.3f and %.3f with %d %% confidence, of %s",
		b, v.Ratio, a, *v.Low, *v.High, v.Percent, plural.Count(v.Turns, "turn", "turns"))
	if v.Answer == stats.NoDifference {
		return string(v.Answer) + ": " + within
	}
	better := "worse"
	if (v.Answer == stats.Higher) == r.Figure.HigherIsBetter {
		better = "better"
	}
	return fmt.Sprintf("%s %s is %s, %s: %s", b, printable.Text(r.Figure.Name), v.Answer, better, within)
}

func (r *Report) writeThrownOut(out io.Writer) {
	if r.ThrownOut == 0 {
		fmt.Fprintln(out, "no run was thrown out: alignment and path of each were as planned")
		return
	}
	fmt.Fprintf(out, "%s thrown out:\n", plural.Count(r.ThrownOut, "run was", "runs were"))
	for _, run := range r.Runs {
		if run.ThrownOut != "" {
			fmt.Fprintf(out, "  turn %d, %s: %s\n", run.Turn, printable.Text(r.arm(run.Arm).Name), printable.Text(run.ThrownOut))
		}
	}
}

func (r *Report) arm(l Letter) Arm {
	if l == B {
		return r.B
	}
	return r.A
}

// made says by what it was measured.
func (r *Report) made() string {
	var nodes []string
	for _, pod := range r.Pods {
		nodes = append(nodes, fmt.Sprintf("%s on node %s", printable.Text(pod.Role), printable.Text(pod.Node)))
	}
	return fmt.Sprintf("%s, runs of %s; %s; Kubernetes %s, plumbline %s", printable.Text(r.Versions.Tool), r.length(),
		strings.Join(nodes, ", "), printable.Text(r.Versions.Kubernetes), printable.Text(r.Versions.Plumbline))
}

// length is what each run was of.
func (r *Report) length() string {
	length := plural.Count(r.Seconds, "second", "seconds")
	if r.Iterations > 0 {
		length = plural.Count(r.Iterations, "iteration", "iterations")
	}
	if r.Bytes > 0 {
		length += " of " + plural.Count(r.Bytes, "byte", "bytes")
	}
	if r.Repeats > 1 {
		length += fmt.Sprintf(", the median of %d", r.Repeats)
	}
	return length
}
