// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvbandwidth_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/nvbandwidth"
	"plumbline.dev/plumbline/internal/bench/tools/toolstest"
)

const latency = "host_device_latency_sm"

func TestTextAndJSONAgree(t *testing.T) {
	text, err := nvbandwidth.ParseText(strings.NewReader(toolstest.File(t, "latency-h200.txt")))
	if err != nil {
		t.Fatal(err)
	}
	object, err := nvbandwidth.ParseJSON(strings.NewReader(toolstest.File(t, "latency-h200.json")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, object); diff != "" {
		t.Errorf("text and JSON of the same run: %s", diff)
	}
	if text.Version != "v0.8" {
		t.Errorf("version %q", text.Version)
	}
	got, err := text.Figure(latency)
	if diff := cmp.Diff(tools.Figure{Name: latency, Unit: "ns", Value: 1191.19}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestSeveralGPUs(t *testing.T) {
	r, err := nvbandwidth.ParseText(strings.NewReader(toolstest.File(t, "several-gpus.txt")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Figure(latency); !errors.Is(err, tools.ErrMissing) || !strings.Contains(err.Error(), "1 rows of 3 cells") {
		t.Errorf("the sum of three GPUs is no figure: %+v, %v", got, err)
	}
	if got, err := r.Cell(latency, 0, 1); err != nil || got.Value != 1321.51 {
		t.Errorf("%+v, %v", got, err)
	}
	const copies = "device_to_device_memcpy_read_ce"
	if got, err := r.Cell(copies, 1, 0); err != nil || got != (tools.Figure{Name: copies, Unit: "GB/s", Value: 276.19, HigherIsBetter: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, ask := range map[string]func() (tools.Figure, error){
		"N/A":                 func() (tools.Figure, error) { return r.Cell(copies, 1, 1) },
		"no cell 3, 0":        func() (tools.Figure, error) { return r.Cell(copies, 3, 0) },
		"no cell 0, -1":       func() (tools.Figure, error) { return r.Cell(copies, 0, -1) },
		"waived 1 of its tes": func() (tools.Figure, error) { return r.Figure("device_local_copy") },
	} {
		if got, err := ask(); !errors.Is(err, tools.ErrMissing) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A test of both directions prints three matrices; of each, the name is its SUM's.
func TestBothDirections(t *testing.T) {
	text := `Running device_to_device_bidirectional_memcpy_read_sm.
memcpy SM GPU(row) <-> GPU(column) Read1 bandwidth (GB/s)
           0
 0      1.00

SUM device_to_device_bidirectional_memcpy_read_sm_read1 1.00
`
	r, err := nvbandwidth.ParseText(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Figure("device_to_device_bidirectional_memcpy_read_sm_read1"); err != nil || got.Value != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTextRefuses(t *testing.T) {
	whole := toolstest.File(t, "latency-h200.txt")
	end := strings.Index(whole, "\nSUM")
	toolstest.Refuses(t, nvbandwidth.ParseText, toolstest.Refusals{
		{"nothing", "", tools.ErrCut, "empty"},
		{"only its version", whole[:60], tools.ErrCut, "no test ran"},
		{"cut before SUM", whole[:end], tools.ErrCut, `"host_device_latency_sm" has no SUM`},
		{"cut before the matrix", whole[:strings.Index(whole, "memory")], tools.ErrCut, "has no SUM"},
		{"the next test begins in it", whole[:end] + "\nRunning device_local_copy.\n", tools.ErrCut, "has no SUM"},
		{"SUM alone, as the tutorial shows it", "SUM host_device_latency_sm 1191.19\n", tools.ErrMissing, "adds all GPUs"},
		{"SUM without a row", "Running x.\nlatency CPU(row) (ns)\n   0\nSUM x 1\n", tools.ErrMissing, "adds all GPUs"},
		{"a row lost", strings.Replace(toolstest.File(t, "several-gpus.txt"), " 2    276.11    275.98       N/A\n", "", 1), tools.ErrValue, "add up to 1104.17"},
		{"a row of another", strings.Replace(whole, " 0   1191.19", " 1   1191.19", 1), tools.ErrFormat, "want row 0"},
		{"a cell too few", strings.Replace(whole, " 0   1191.19", " 0", 1), tools.ErrFormat, "want row 0"},
		{"a cell that is none", strings.Replace(whole, " 0   1191.19", " 0   11\x1b[91.19", 1), tools.ErrFormat, `"11�[91.19"`},
		{"columns that are none", strings.Replace(whole, "           0\n", "  one\n", 1), tools.ErrFormat, "columns"},
		{"the SUM of another test", strings.Replace(whole, "SUM host", "SUM guest", 1), tools.ErrFormat, "want the SUM of"},
		{"an error line", "Running host_device_latency_sm.\nERROR: out of memory\n", tools.ErrFailed, "out of memory"},
		{"a test that is not known", "ERROR: Testcase x not found!\n", tools.ErrFailed, "not found"},
		{"CUDA", "[CUDA_ERROR_NO_DEVICE] no CUDA-capable device is detected in expression cuInit(0) in main() : nvbandwidth.cpp:1\n", tools.ErrFailed, "NO_DEVICE"},
		{"CPUs that are a claim's", "NVML_ERROR: [Unknown Error] in expression nvmlDeviceSetCpuAffinity(dev) in setOptimalCpuAffinity() : common.h:1\n", tools.ErrFailed, "want nvbandwidth -d"},
		{"no program", "sh: 1: ./nvbandwidth: not found\n", tools.ErrFailed, "not found"},
		{"hostile", "Error \x1b]0;owned\x07\n", tools.ErrFailed, "Error �]0;owned�"},
	})
}

// Of a test that was waived there is no matrix, and no line that names it.
func TestWaived(t *testing.T) {
	for name, text := range map[string]string{"alone": "Waived: \n", "after it began": "Running host_device_latency_sm.\nWaived: no peer\n"} {
		r, err := nvbandwidth.ParseText(strings.NewReader("nvbandwidth Version: v0.8\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Figure(latency); !errors.Is(err, tools.ErrMissing) || !strings.Contains(err.Error(), "waived 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	object := `{"nvbandwidth":{"testcases":[{"name":"host_device_latency_sm","status":"Waived"}]}}`
	r, err := nvbandwidth.ParseJSON(strings.NewReader(object))
	if err != nil || r.Waived != 1 {
		t.Fatal(r, err)
	}
}

func TestJSONRefuses(t *testing.T) {
	whole := toolstest.File(t, "latency-h200.json")
	toolstest.Refuses(t, nvbandwidth.ParseJSON, toolstest.Refusals{
		{"cut", whole[:len(whole)-20], tools.ErrCut, "no end"},
		{"text", toolstest.File(t, "latency-h200.txt"), tools.ErrFormat, "no JSON object"},
		{"another tool's", `{"start":{}}`, tools.ErrFormat, "no nvbandwidth"},
		{"failed: listed as running, then with its error", toolstest.File(t, "failed-twice.json"), tools.ErrFailed, `status "Error"`},
		{"aborted", strings.Replace(whole, "Passed", "Running", 1), tools.ErrCut, "never ended"},
		{"no test", `{"nvbandwidth":{"version":"v0.8"}}`, tools.ErrCut, "no test ran"},
		{"an error of the whole", `{"nvbandwidth":{"error":"no device"}}`, tools.ErrFailed, "no device"},
		{"CPUs that are a claim's", `{"nvbandwidth":{"error":"NVML_ERROR: [Unknown Error] in setOptimalCpuAffinity()"}}`, tools.ErrFailed, "want nvbandwidth -d"},
		{"sum alone", `{"nvbandwidth":{"testcases":[{"name":"a","status":"Passed","sum":1}]}}`, tools.ErrMissing, "adds all GPUs"},
		{"no sum", `{"nvbandwidth":{"testcases":[{"name":"a","status":"Passed","bandwidth_matrix":[["1"]]}]}}`, tools.ErrCut, "no sum"},
		{"a row too short", `{"nvbandwidth":{"testcases":[{"name":"a","status":"Passed","bandwidth_matrix":[["1","2"],["3"]],"sum":6}]}}`, tools.ErrFormat, "a row has 1"},
		{"an empty row", `{"nvbandwidth":{"testcases":[{"name":"a","status":"Passed","bandwidth_matrix":[null],"sum":0}]}}`, tools.ErrFormat, "empty"},
		{"a cell that is none", strings.Replace(whole, `"1191.19"`, `"fast"`, 1), tools.ErrFormat, "fast"},
		{"a sum that contradicts", strings.Replace(whole, `"1191.19"`, `"1321.51"`, 1), tools.ErrValue, "add up to 1321.51"},
		{"not a number", strings.Replace(whole, `"1191.19"`, `"nan"`, 1), tools.ErrValue, "add up to NaN"},
	})
}

func TestCellsOfJSON(t *testing.T) {
	r, err := nvbandwidth.ParseJSON(strings.NewReader(
		`{"nvbandwidth":{"testcases":[{"name":"a","status":"Passed","bandwidth_description":"(GB/s)","bandwidth_matrix":[["N/A",2.5,"0"]],"sum":2.5}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Cell("a", 0, 1); err != nil || got.Value != 2.5 {
		t.Errorf("a number: %+v, %v", got, err)
	}
	if _, err := r.Cell("a", 0, 0); !errors.Is(err, tools.ErrMissing) {
		t.Errorf("N/A: %v", err)
	}
	if _, err := r.Cell("a", 0, 2); !errors.Is(err, tools.ErrValue) {
		t.Errorf("zero: %v", err)
	}
	r.Tests[0].Description = "memory latency (us)"
	if _, err := r.Cell("a", 0, 1); !errors.Is(err, tools.ErrFormat) || !strings.Contains(err.Error(), "names no unit") {
		t.Errorf("a unit that is not known: %v", err)
	}
}

func fuzzed(t *testing.T, r *nvbandwidth.Result, err error) {
	if (r == nil) == (err == nil) {
		t.Fatalf("%+v and %v", r, err)
	}
	if err != nil {
		return
	}
	for _, test := range r.Tests {
		for i, row := range test.Cells {
			for j := range row {
				if got, err := r.Cell(test.Name, i, j); err == nil && !(got.Value > 0 && !math.IsInf(got.Value, 0)) {
					t.Errorf("%+v", got)
				}
			}
		}
		_, _ = r.Figure(test.Name)
	}
}

func FuzzParseText(f *testing.F) {
	f.Add(toolstest.File(f, "latency-h200.txt"))
	f.Add(toolstest.File(f, "several-gpus.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := nvbandwidth.ParseText(strings.NewReader(text))
		fuzzed(t, r, err)
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add(toolstest.File(f, "latency-h200.json"))
	f.Add(toolstest.File(f, "failed-twice.json"))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := nvbandwidth.ParseJSON(strings.NewReader(text))
		fuzzed(t, r, err)
	})
}
