// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltests_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/nccltests"
	"plumbline.dev/plumbline/internal/bench/tools/toolstest"
)

const secret = "planted-s3cr3t"

// The document's run, with all that Open MPI wrote above the table.
func TestTableAndJSONAgree(t *testing.T) {
	table, err := nccltests.ParseTable(strings.NewReader(toolstest.File(t, "published.txt")))
	if err != nil {
		t.Fatal(err)
	}
	object, err := nccltests.ParseJSON(strings.NewReader(toolstest.File(t, "published.json")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, object); diff != "" {
		t.Errorf("table and JSON of the same run: %s", diff)
	}
	if len(table.Rows) != 24 || !table.Checked() {
		t.Errorf("%d rows, checked %v", len(table.Rows), table.Checked())
	}
	want := nccltests.Row{Bytes: 8589934592, Type: "float", Redop: "sum",
		OutOfPlace: nccltests.Measure{Micros: 269368, AlgGBs: 31.89, BusGBs: 31.89, Wrong: ptr.To(int64(0))},
		InPlace:    nccltests.Measure{Micros: 269407, AlgGBs: 31.88, BusGBs: 31.88, Wrong: ptr.To(int64(0))}}
	if diff := cmp.Diff(want, table.Rows[23]); diff != "" {
		t.Error(diff)
	}
	if got, err := table.Average(); err != nil || got != (tools.Figure{Name: "avg_busbw", Unit: "GB/s", Value: 15.5188, HigherIsBetter: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := table.BusBandwidth(8 << 30); err != nil || got.Value != 31.89 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := table.BusBandwidth(3); !errors.Is(err, tools.ErrMissing) {
		t.Errorf("%+v, %v", got, err)
	}
}

// What takes its place without GPUs: the lab's allreduce, of two ranks over TCP.
func TestTableOfCPUs(t *testing.T) {
	table, err := nccltests.ParseTable(strings.NewReader(toolstest.File(t, "cpu.txt")))
	if err != nil {
		t.Fatal(err)
	}
	last := table.Rows[len(table.Rows)-1]
	if len(table.Rows) != 11 || !table.Checked() || last.Bytes != 1<<20 || last.InPlace.BusGBs <= 0 {
		t.Errorf("%d rows, checked %v, last %+v", len(table.Rows), table.Checked(), last)
	}
	if average, err := table.Average(); err != nil || average.Value <= 0 {
		t.Errorf("%+v, %v", average, err)
	}
}

// The environment is in the file, and in nothing that comes out of it.
func TestEnvironmentIsNeverDecoded(t *testing.T) {
	whole := toolstest.File(t, "published.json")
	if !strings.Contains(whole, secret) {
		t.Fatal("the file has no secret to begin with")
	}
	r, err := nccltests.ParseJSON(strings.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%#v", *r); strings.Contains(shown, "s3cr3t") {
		t.Error("the result holds the environment")
	}
	at := strings.Index(whole, secret)
	for name, text := range map[string]string{
		"cut in it":          whole[:at+7],
		"cut behind it":      whole[:at+40],
		"no JSON in it":      whole[:at] + "\x01" + whole[at:],
		"no JSON behind it":  strings.Replace(whole, `"nccl_version":`, `s3cr3t`, 1),
		"a figure that is":   strings.Replace(whole, `"time":35.59`, `"time":"`+secret+`"`, 1),
		"a size that is":     strings.Replace(whole, `"size":1024`, `"size":"`+secret+`"`, 1),
		"environment twice":  strings.Replace(whole, `"end_time":"2026-11-20 10:01:00"`, `"env":["`+secret+`"]`, 1),
		"followed by itself": whole + whole,
	} {
		r, err := nccltests.ParseJSON(strings.NewReader(text))
		if err == nil || r != nil {
			t.Errorf("%s: it was read", name)
		} else if strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const header = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"

func TestUnchecked(t *testing.T) {
	text := header + "  1024  256  float  sum  -1  35.59  0.03  0.03  N/A  30.61  0.03  0.03  N/A\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.0311 \n"
	r, err := nccltests.ParseTable(strings.NewReader(text))
	if err != nil || r.Checked() || r.Rows[0].InPlace.Wrong != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestForms(t *testing.T) {
	end := "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 2 OK\n#\n# Collective test concluded: all_reduce_perf\n"
	for name, text := range map[string]string{
		"timestamps": strings.TrimSuffix(header, "\n") + " timestamp\n 8 2 float sum -1 1 2 2 0 1 2 2 0 2026-11-20 10:00:00\n" + end,
		"of each iteration": "# size count type redop root time algbw busbw #wrong i_min i_max time algbw busbw #wrong i_min i_max\n" +
			" 8 2 float sum -1 1 2 2 0 9 9 1 2 2 0 9 9\n" + end,
		"tagged":         "[1,0]<stdout>:" + header + "[1,0]<stdout>: 8 2 float sum -1 1 2 2 0 1 2 2 0\n[1,0]<stdout>:" + strings.Replace(end, "\n# Avg", "\n[1,0]<stdout>:# Avg", 1),
		"NCCL's own log": header + "worker-0:23:23 [0] NCCL INFO Bootstrap : Using dranet0\n 8 2 float sum -1 1 2 2 0 1 2 2 0\n" + end,
	} {
		r, err := nccltests.ParseTable(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := r.BusBandwidth(8); err != nil || got.Value != 2 || len(r.Rows) != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestTableRefuses(t *testing.T) {
	whole := toolstest.File(t, "published.txt")
	change := toolstest.Changes(t, whole)
	last := whole[strings.Index(whole, "  8589934592"):strings.Index(whole, "# Out of")]
	toolstest.Refuses(t, nccltests.ParseTable, toolstest.Refusals{
		{"nothing", "", tools.ErrCut, "empty"},
		{"cut before the average", whole[:strings.Index(whole, "# Avg")], tools.ErrCut, "Avg bus bandwidth"},
		{"cut before the bounds", whole[:strings.Index(whole, "# Out")], tools.ErrCut, "Out of bounds"},
		{"cut in a row", whole[:strings.Index(whole, "269407")], tools.ErrFormat, "want a row of 13"},
		{"cut in the average", whole[:strings.Index(whole, ": 15.5188")+1], tools.ErrCut, "Avg"},
		{"cut in its number", strings.TrimSuffix(whole, ".5188\n"), tools.ErrValue, "that of the 24 rows is 15.51"},
		{"a row lost", change(last, ""), tools.ErrValue, "that of the 23 rows"},
		{"no rows", header + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n", tools.ErrCut, "no row"},
		{"a row that NCCL wrote into", change("269368   31.89", "269368 NCCL INFO 31.89"), tools.ErrFormat, "words"},
		{"wrong elements", change("31.89      0   269407", "31.89      7   269407"), tools.ErrFailed, "7 elements are wrong"},
		{"out of bounds", change(": 0 OK", ": 3 FAILED"), tools.ErrFailed, "3 FAILED"},
		{"less than was wanted", change(": 15.5188", ": 15.5188 FAILED"), tools.ErrFailed, "NCCL_TESTS_MIN_BW"},
		{"NCCL gave up", "worker-0: Test NCCL failure common.cu:958 'unhandled \x1bsystem error'\n", tools.ErrFailed, "unhandled �system error"},
		{"mpirun gave up", change("# Avg", "mpirun noticed that process rank 1 exited on signal 9\n# Avg"), tools.ErrFailed, "rank 1"},
		{"NCCL's last error", whole + "# error: remote process exited\n", tools.ErrFailed, "remote process"},
		{"no program", "bash: /usr/local/bin/all_reduce_perf: not found\n", tools.ErrFailed, "not found"},
		{"two runs", whole + whole, tools.ErrFormat, "second table"},
		{"CPU time", change("time   algbw", "cputime algbw"), tools.ErrFormat, "want the columns"},
		{"NaN", change("269368   31.89   31.89", "269368   nan   nan"), tools.ErrValue, "NaN"},
		{"no time", change("269368", "0.00"), tools.ErrValue, "time"},
		{"an average that is none", change("15.5188", "nan"), tools.ErrValue, "NaN"},
		{"a count of minus one", change("31.89      0   269407", "31.89      -1   269407"), tools.ErrValue, "#wrong"},
		{"a size that is none", change("  8589934592", "  8589934592x"), tools.ErrFormat, "size"},
		{"JSON", toolstest.File(t, "published.json"), tools.ErrCut, "last lines"},
	})
}

func TestJSONRefuses(t *testing.T) {
	whole := toolstest.File(t, "published.json")
	change := toolstest.Changes(t, whole)
	toolstest.Refuses(t, nccltests.ParseJSON, toolstest.Refusals{
		{"the table", toolstest.File(t, "published.txt"), tools.ErrFormat, "no JSON object"},
		{"cut", whole[:len(whole)-40], tools.ErrCut, "no end"},
		{"closed early", change(`,"end_time":"2026-11-20 10:01:00"`, ""), tools.ErrCut, "end_time"},
		{"an error", change(`"errors":[]`, `"errors":["remote \u001bexited"]`), tools.ErrFailed, "remote �exited"},
		{"out of bounds", change(`"count":0,"okay"`, `"count":2,"okay"`), tools.ErrFailed, "2 values"},
		{"less than was wanted", change(`"unchecked"`, `"false"`), tools.ErrFailed, "NCCL_TESTS_MIN_BW"},
		{"wrong elements", change(`"nwrong":0.0`, `"nwrong":4.0`), tools.ErrFailed, "4 elements"},
		{"negative elements", change(`"nwrong":0.0`, `"nwrong":-4.0`), tools.ErrValue, "#wrong"},
		{"NaN", change(`"bus_bw":0.03`, `"bus_bw":"nan"`), tools.ErrValue, "NaN"},
		{"CPU time", change(`"time":`, `"cpu_time":`), tools.ErrMissing, "want time"},
		{"in place is null", change(`"in_place":{"time":30.61,"alg_bw":0.03,"bus_bw":0.03,"nwrong":0.0}`, `"in_place":null`), tools.ErrMissing, "in place"},
		{"a figure that is none", change(`"time":35.59`, `"time":"fast"`), tools.ErrFormat, "no number"},
		{"an average that contradicts", change("15.5188", "25.5188"), tools.ErrValue, "24 rows"},
	})
	if r, err := nccltests.ParseJSON(strings.NewReader(change(`"nwrong":0.0`, `"nwrong":null`))); err != nil || r.Checked() {
		t.Errorf("null is not checked: %+v, %v", r, err)
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(toolstest.File(f, "published.txt"))
	f.Add(header)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := nccltests.ParseTable(strings.NewReader(text))
		fuzzed(t, r, err)
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add(toolstest.File(f, "published.json"))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := nccltests.ParseJSON(strings.NewReader(text))
		fuzzed(t, r, err)
	})
}

func fuzzed(t *testing.T, r *nccltests.Result, err error) {
	if (r == nil) == (err == nil) {
		t.Fatalf("%+v and %v", r, err)
	}
	if err != nil {
		return
	}
	for _, row := range r.Rows {
		if got, err := r.BusBandwidth(row.Bytes); err == nil && got.Check() != nil {
			t.Errorf("%+v", got)
		}
	}
}
