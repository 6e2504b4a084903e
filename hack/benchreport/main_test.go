// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const complete = `goos: linux
BenchmarkScanA3-2     100   12345678 ns/op   1.25 x-floor
BenchmarkEncodeA3-2   100   2000000 ns/op
BenchmarkAgentIdle    1     41.5 MB-resident
BenchmarkOther-2      100   7 ns/op
`
	path := filepath.Join(t.TempDir(), "out", "bench.json")
	var screen bytes.Buffer
	if err := run(strings.NewReader(complete), &screen, path); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1.25x floor", "NO", "yes", "Other"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("%q is not in the table:\n%s", want, screen.String())
		}
	}
	if !strings.Contains(string(written), `"met": false`) {
		t.Errorf("the missed target is not in the file:\n%s", written)
	}
}

func TestReportMissesAFigure(t *testing.T) {
	err := run(strings.NewReader("BenchmarkScanA3-2 100 12345678 ns/op\n"), &bytes.Buffer{}, filepath.Join(t.TempDir(), "b.json"))
	if err == nil || !strings.Contains(err.Error(), "AgentIdle") {
		t.Errorf("error %v does not name the missing figure", err)
	}
}
