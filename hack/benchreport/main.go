// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command benchreport reads the output of Go benchmarks on standard input,
// prints each figure beside its target, and writes the same to a JSON file. A
// benchmark reports the comparison it measured in the same run as a metric
// whose unit starts with "x-", such as "x-floor": that becomes the ratio.
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
	"sigs.k8s.io/yaml"
)

//go:embed targets.yaml
var targetsText []byte

// target is the most that a figure may be.
type target struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Max  float64 `json:"max"`
}

// figure is one line of the report.
type figure struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"`
	Unit   string   `json:"unit"`
	Ratio  *float64 `json:"ratio,omitempty"`
	To     string   `json:"ratioTo,omitempty"`
	Target *float64 `json:"target,omitempty"`
	Met    *bool    `json:"met,omitempty"`
}

func main() {
	out := flag.String("o", "out/bench.json", "file to write the figures to")
	flag.Parse()
	targets, err := parseTargets(targetsText)
	if err == nil {
		err = run(os.Stdin, os.Stdout, *out, targets)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchreport:", err)
		os.Exit(1)
	}
}

func parseTargets(text []byte) ([]target, error) {
	var targets []target
	if err := yaml.UnmarshalStrict(text, &targets); err != nil {
		return nil, fmt.Errorf("read targets: %w", err)
	}
	return targets, nil
}

// run fails when a target has no figure, and leaves one that is missed to the
// reader of the report: a shared machine must not fail a build by its noise.
func run(in io.Reader, screen io.Writer, path string, targets []target) error {
	figures, err := read(in, targets)
	if err != nil {
		return err
	}
	if len(figures) == 0 {
		return errors.New("no benchmark result on standard input")
	}
	if err := printTable(screen, figures); err != nil {
		return err
	}
	return errors.Join(write(path, figures), checkComplete(figures, targets))
}

// checkComplete names each target that nothing was measured for: a benchmark
// that was renamed must not take its target along in silence.
func checkComplete(figures []figure, targets []target) error {
	var errs []error
	for _, t := range targets {
		measured := func(f figure) bool { return f.Name == t.Name && f.Unit == t.Unit }
		if !slices.ContainsFunc(figures, measured) {
			errs = append(errs, fmt.Errorf("target %s in %s: no such figure", t.Name, t.Unit))
		}
	}
	return errors.Join(errs...)
}

func read(in io.Reader, targets []target) ([]figure, error) {
	var figures []figure
	results := benchfmt.NewReader(in, "stdin")
	for results.Scan() {
		r, ok := results.Result().(*benchfmt.Result)
		if !ok {
			continue // a unit or a line of another kind
		}
		figures = append(figures, figuresOf(r, targets)...)
	}
	return figures, results.Err()
}

// figuresOf makes a line of each metric that has a target, and always one of
// the first; the comparison goes with each.
func figuresOf(r *benchfmt.Result, targets []target) []figure {
	name := strings.TrimPrefix(string(r.Name.Base()), "Benchmark")
	var ratio *float64
	var to string
	for _, v := range r.Values {
		if against, ok := strings.CutPrefix(v.Unit, "x-"); ok {
			ratio, to = &v.Value, against
		}
	}
	var figures []figure
	for i, v := range r.Values {
		value, unit := v.Value, v.Unit
		if v.OrigUnit != "" {
			value, unit = v.OrigValue, v.OrigUnit
		}
		if strings.HasPrefix(unit, "x-") {
			continue
		}
		f := figure{Name: name, Value: value, Unit: unit, Ratio: ratio, To: to}
		for _, t := range targets {
			if t.Name == name && t.Unit == unit {
				met := value <= t.Max
				f.Target, f.Met = &t.Max, &met
			}
		}
		if i == 0 || f.Target != nil {
			figures = append(figures, f)
		}
	}
	return figures
}

func printTable(w io.Writer, figures []figure) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tVALUE\tUNIT\tRATIO\tTARGET\tMET")
	for _, f := range figures {
		ratio, want, met := "-", "-", "-"
		if f.Ratio != nil {
			ratio = fmt.Sprintf("%.2fx %s", *f.Ratio, f.To)
		}
		if f.Target != nil {
			want, met = fmt.Sprintf("<= %.6g", *f.Target), map[bool]string{true: "yes", false: "NO"}[*f.Met]
		}
		fmt.Fprintf(t, "%s\t%.6g\t%s\t%s\t%s\t%s\n", f.Name, f.Value, f.Unit, ratio, want, met)
	}
	return t.Flush()
}

func write(path string, figures []figure) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
