// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sampleTargets belong to the sample below, so that a target of the project
// comes and goes without it.
const sampleTargets = `
- {name: Scan, unit: ns/op, max: 10e6}
- {name: Encode, unit: ns/op, max: 3e6}
- {name: Idle, unit: MB-resident, max: 40}
`

const sample = `goos: linux
BenchmarkScan-2     100   12345678 ns/op   1.25 x-floor
BenchmarkEncode-2   100   2000000 ns/op
BenchmarkIdle       1     41.5 MB-resident
BenchmarkOther-2    100   7 ns/op
`

func report(t *testing.T, input, targetsText string) (screen, written string, err error) {
	t.Helper()
	targets, err := parseTargets([]byte(targetsText))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out", "bench.json")
	var table bytes.Buffer
	err = run(strings.NewReader(input), &table, path, targets)
	file, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return table.String(), string(file), err
}

func TestReport(t *testing.T) {
	screen, written, err := report(t, sample, sampleTargets)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1.25x floor", "NO", "yes", "Other"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is not in the table:\n%s", want, screen)
		}
	}
	if !strings.Contains(written, `"met": false`) {
		t.Errorf("the missed target is not in the file:\n%s", written)
	}
}

// TestReportMissesAFigure leaves out one figure after the other, of the sample
// and of the project's own targets.
func TestReportMissesAFigure(t *testing.T) {
	lines := strings.SplitAfter(sample, "\n")
	for i, name := range map[int]string{1: "Scan in ns/op", 2: "Encode in ns/op", 3: "Idle in MB-resident"} {
		kept := strings.Join(slices.Concat(lines[:i], lines[i+1:]), "")
		if _, _, err := report(t, kept, sampleTargets); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: error %v does not name it", name, err)
		}
	}
	all, err := parseTargets(targetsText)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = report(t, sample, string(targetsText))
	for _, missing := range all {
		if err == nil || !strings.Contains(err.Error(), missing.Name+" in "+missing.Unit) {
			t.Errorf("error %v does not name target %s in %s", err, missing.Name, missing.Unit)
		}
	}
}

// TestTargetsHaveBenchmarks finds a renamed benchmark without running any.
func TestTargetsHaveBenchmarks(t *testing.T) {
	all, err := parseTargets(targetsText)
	if err != nil {
		t.Fatal(err)
	}
	code := sources(t, "../../internal", "../../lab")
	for _, tg := range all {
		if !strings.Contains(code, "Benchmark"+tg.Name+"(") && !strings.Contains(code, "Benchmark"+tg.Name+" ") {
			t.Errorf("no code reports Benchmark%s, which has a target in %s", tg.Name, tg.Unit)
		}
	}
}

func sources(t *testing.T, roots ...string) string {
	t.Helper()
	var all strings.Builder
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
