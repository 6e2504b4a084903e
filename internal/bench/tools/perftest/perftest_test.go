// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package perftest_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/perftest"
	"plumbline.dev/plumbline/internal/bench/tools/toolstest"
)

const dashes = "---------------------------------------------------------------------------------------\n"

func micros(name string, value float64) tools.Figure {
	return tools.Figure{Name: name, Unit: "us", Value: value}
}

// The same run by its table (nine columns, and a line of standard error above the row) and by
// the files of both releases.
func TestLatencyInAllForms(t *testing.T) {
	want := &perftest.Result{Rows: []perftest.Row{{Bytes: 2, Iterations: 200, Figures: []tools.Figure{
		micros("t_min", 8.32), micros("t_max", 176.13), micros("t_typical", 8.49), micros("t_avg", 9.05), micros("t_99", 56.36), micros("t_99.9", 176.13),
	}}}}
	got, err := perftest.ParseText(strings.NewReader(toolstest.File(t, "lat-debian12.txt")))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("table: %s, %v", diff, err)
	}
	for _, name := range []string{"lat-debian12.json", "lat-debian13.json"} {
		got, err := perftest.ParseJSON(strings.NewReader(toolstest.File(t, name)), false)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %s, %v", name, diff, err)
		}
	}
}

// The two runs that were published with six columns.
func TestPublishedLatency(t *testing.T) {
	for _, c := range []struct {
		row          string
		typical, avg float64
	}{{"2 1000 1.45 3.88 1.47 1.51", 1.47, 1.51}, {"2 1000 1.71 5.75 1.74 1.81", 1.74, 1.81}} {
		text := "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec]\n" + c.row + "\n"
		if r, err := perftest.ParseText(strings.NewReader(text)); !errors.Is(err, tools.ErrCut) {
			t.Errorf("as the page shows it, without its end: %+v, %v", r, err)
		}
		r, err := perftest.ParseText(strings.NewReader(text + dashes))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{"t_typical": c.typical, "t_avg": c.avg} {
			if got, err := r.Figure(name, 2); err != nil || got != micros(name, want) {
				t.Errorf("%+v, %v, want %v", got, err, want)
			}
		}
	}
}

func TestPublishedBandwidth(t *testing.T) {
	for name, c := range map[string]struct{ smallest, largest float64 }{
		"bw-host-memory.txt": {0.082376, 97.64}, "bw-gpu-memory.txt": {0.074692, 82.07},
	} {
		r, err := perftest.ParseText(strings.NewReader(toolstest.File(t, name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(r.Rows) != 23 {
			t.Errorf("%s: %d rows", name, len(r.Rows))
		}
		// Below 0.1 an average has six decimals.
		if got, err := r.Figure("bw_average", 2); err != nil || got != toolstest.Gbits("bw_average", c.smallest) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got, err := r.Figure("bw_average", 8<<20); err != nil || got != toolstest.Gbits("bw_average", c.largest) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for _, ask := range []func() (tools.Figure, error){
			func() (tools.Figure, error) { return r.Figure("bw_average", 3) },
			func() (tools.Figure, error) { return r.Figure("t_avg", 2) },
		} {
			if got, err := ask(); !errors.Is(err, tools.ErrMissing) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

// Without --report_gbits there are 2^20 bytes a second, whatever a release calls them.
func TestUnits(t *testing.T) {
	for _, unit := range []string{"MB/sec", "MiB/sec"} {
		text := " #bytes     #iterations    BW peak[" + unit + "]    BW average[" + unit + "]   MsgRate[Mpps]\n 65536      100              52.10              48.90   \t\t   0.000782\n" + dashes
		r, err := perftest.ParseText(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Figure("bw_average", 65536); err != nil || got != (tools.Figure{Name: "bw_average", Unit: "MiB/s", Value: 48.9, HigherIsBetter: true}) {
			t.Errorf("%s: %+v, %v", unit, got, err)
		}
		if got, err := r.Figure("msg_rate", 65536); err != nil || got.Unit != "Mpps" {
			t.Errorf("%s: %+v, %v", unit, got, err)
		}
	}
	for with, want := range map[bool]string{true: "Gbit/s", false: "MiB/s"} {
		r, err := perftest.ParseJSON(strings.NewReader(toolstest.File(t, "bw-debian12.json")), with)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Figure("bw_average", 8<<20); err != nil || got.Unit != want || got.Value != 97.64 {
			t.Errorf("--report_gbits %v: %+v, %v", with, got, err)
		}
		if got, err := r.Figure("bw_average", 65536); !errors.Is(err, tools.ErrMissing) || !strings.Contains(err.Error(), "keeps the last size") {
			t.Errorf("-a keeps the last size: %+v, %v", got, err)
		}
	}
}

// A run by duration has no peak and another last column, which has no brackets.
func TestByDuration(t *testing.T) {
	r, err := perftest.ParseText(strings.NewReader(" #bytes        #iterations       t_avg[usec]    tps average\n 2             99000             9.05           55248.62\n" + dashes))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]perftest.Row{{Bytes: 2, Iterations: 99000, Figures: []tools.Figure{micros("t_avg", 9.05)}}}, r.Rows); diff != "" {
		t.Error(diff)
	}
	r, err = perftest.ParseText(strings.NewReader(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 8388608  7  0.00  0.41  0.000000\n" + dashes))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]tools.Figure{toolstest.Gbits("bw_average", 0.41)}, r.Rows[0].Figures); diff != "" {
		t.Error(diff)
	}
}

// What perftest says of clocks while it computes a row, and columns that are not read.
func TestNoiseInTheTable(t *testing.T) {
	text := " #bytes #iterations t_avg[usec] CPU_Util[%]\n" +
		"Conflicting CPU frequency values detected: 800.000000 != 2100.000000. CPU Frequency is not max.\n" +
		"Warning: measured timestamp frequency 2095.08 differs from nominal 3500 MHz\n\r\n" +
		" 2 1000 1.51 3.1\r\n" + dashes + "Couldn't be bothered\n"
	r, err := perftest.ParseText(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Figure("t_avg", 2); err != nil || got != micros("t_avg", 1.51) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTextRefuses(t *testing.T) {
	whole := toolstest.File(t, "lat-debian12.txt")
	change := toolstest.Changes(t, whole)
	many := toolstest.File(t, "bw-host-memory.txt")
	changeMany := toolstest.Changes(t, many)
	toolstest.Refuses(t, perftest.ParseText, toolstest.Refusals{
		{"nothing", "", tools.ErrCut, "empty"},
		{"a server that waits", "* Waiting for client to connect... *\n", tools.ErrCut, "no table"},
		{"cut in the handshake", whole[:strings.Index(whole, " #bytes")], tools.ErrCut, "no table"},
		{"cut below the header", whole[:strings.Index(whole, "Correlation")], tools.ErrCut, "no line of dashes"},
		{"cut among rows", many[:strings.Index(many, "4194304")], tools.ErrCut, "no line of dashes"},
		{"cut in a row", many[:strings.Index(many, "97.64")], tools.ErrFormat, "want a row of 5"},
		{"cut before the dashes", strings.TrimSuffix(whole, dashes), tools.ErrCut, "no line of dashes"},
		{"a table without rows", "#bytes #iterations t_avg[usec]\n" + dashes, tools.ErrCut, "no rows"},
		{"no device", "IB device mlx5_\x1b[7 not found\nUnable to find the Infiniband/RoCE device\n", tools.ErrFailed, "Unable to find"},
		{"no server", "Couldn't connect to 10.0.0.1:18515\n Unable to open file descriptor for socket connection\n", tools.ErrFailed, "socket connection"},
		{"no program", "sh: 1: ib_write_lat: not found\n", tools.ErrFailed, "ib_write_lat"},
		{"a completion that failed", change(" 2       200", " Failed status 12: wr_id 0 syndrom 0x81\n 2       200"), tools.ErrFailed, "syndrom"},
		{"one at the client", whole + "Completion with error at client\x07\n", tools.ErrFailed, "at client�"},
		{"one that stopped it", strings.TrimSuffix(whole, dashes) + "Problems with warm up\n", tools.ErrFailed, "warm up"},
		{"two runs", whole + whole, tools.ErrFormat, "second table"},
		{"a size twice", changeMany("4          5000", "2          5000"), tools.ErrFormat, "2 bytes are there twice"},
		{"a row that standard error wrote into", change("Correlation coefficient r^2: 0.725595 < 0.9\n", "Correlation coefficient r^2: 0.725595 < 0.9"), tools.ErrFormat, "want a row of 9"},
		{"a line of another", change("Correlation", "Anticorrelation"), tools.ErrFormat, "Anticorrelation"},
		{"cycles", strings.ReplaceAll(whole, "[usec]", "[cycles]"), tools.ErrFormat, "cycles"},
		{"NaN", change("9.05", "nan"), tools.ErrValue, "t_avg"},
		{"infinity", change("9.05", "inf"), tools.ErrValue, "t_avg"},
		{"zero", change("8.49", "0.00"), tools.ErrValue, "t_typical"},
		{"negative", change("8.49", "-8.49"), tools.ErrValue, "t_typical"},
		{"no number", change("8.49", "8,49"), tools.ErrFormat, "8,49"},
		{"no iterations", change(" 2       200", " 2       0"), tools.ErrFormat, "#iterations"},
		{"a size that is none", change(" 2       200", " two     200"), tools.ErrFormat, "#bytes"},
		{"no average", strings.Replace(whole, "t_avg", "t_guess", 1), tools.ErrMissing, "neither t_avg"},
		{"a bandwidth of zero", changeMany("98.02              97.64", "98.02              0.00"), tools.ErrValue, "bw_average"},
	})
}

func TestJSONRefuses(t *testing.T) {
	for _, name := range []string{"lat-debian12.json", "lat-debian13.json"} {
		whole := toolstest.File(t, name)
		quoted := func(key string) string {
			if strings.Contains(whole, `"t_avg"`) {
				return `"` + key + `"`
			}
			return key
		}
		read := func(r io.Reader) (*perftest.Result, error) { return perftest.ParseJSON(r, false) }
		toolstest.Refuses(t, read, toolstest.Refusals{
			{"nothing", "\n", tools.ErrCut, "empty"},
			{"cut in the first object", whole[:80], tools.ErrCut, ""},
			{"cut before results", whole[:strings.Index(whole, quoted("results"))], tools.ErrCut, "no results"},
			{"cut in results", whole[:strings.Index(whole, quoted("t_stdev"))], tools.ErrCut, "no end"},
			{"cut in a key", whole[:strings.Index(whole, "stdev")], tools.ErrCut, ""},
			{"two files", whole + whole, tools.ErrFormat, "follows"},
			{"results twice", strings.TrimSuffix(whole, "}\n") + "," + whole[strings.Index(whole, quoted("results")):], tools.ErrFormat, "second results"},
			{"a figure twice", strings.Replace(whole, quoted("t_min"), quoted("t_avg"), 1), tools.ErrFormat, "twice"},
			{"NaN", strings.Replace(whole, "9.05", "nan", 1), tools.ErrValue, "t_avg"},
			{"negative NaN, as C writes it", strings.Replace(whole, "9.05", "-nan", 1), tools.ErrFormat, "-nan"},
			{"zero", strings.Replace(whole, "9.05", "0.00", 1), tools.ErrValue, "t_avg"},
			{"no number", strings.Replace(whole, "9.05", "\x1bfast", 1), tools.ErrFormat, "�fast"},
			{"no size", strings.Replace(whole, "MsgSize", "Size", 1), tools.ErrMissing, "MsgSize"},
			{"no average", strings.Replace(whole, "t_avg", "t_guess", 1), tools.ErrMissing, "neither t_avg"},
			{"a size of zero", strings.Replace(whole, quoted("MsgSize")+": 2", quoted("MsgSize")+": 0", 1), tools.ErrFormat, "MsgSize"},
			{"an object in it", strings.Replace(whole, "9.05", "{", 1), tools.ErrFormat, ""},
			{"a table", toolstest.File(t, "lat-debian12.txt"), tools.ErrFormat, "want the key"},
		})
	}
}

func fuzzed(t *testing.T, r *perftest.Result, err error) {
	if (r == nil) == (err == nil) {
		t.Fatalf("%+v and %v", r, err)
	}
	if err != nil {
		return
	}
	for _, row := range r.Rows {
		for _, figure := range row.Figures {
			if err := figure.Check(); err != nil || figure.Unit == "" {
				t.Errorf("%+v: %v", figure, err)
			}
		}
	}
}

func FuzzParseText(f *testing.F) {
	for _, name := range []string{"lat-debian12.txt", "bw-host-memory.txt", "bw-gpu-memory.txt"} {
		f.Add(toolstest.File(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := perftest.ParseText(strings.NewReader(text))
		fuzzed(t, r, err)
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, name := range []string{"lat-debian12.json", "lat-debian13.json", "bw-debian12.json"} {
		f.Add(toolstest.File(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := perftest.ParseJSON(strings.NewReader(text), true)
		fuzzed(t, r, err)
	})
}

func TestMTU(t *testing.T) {
	for name, want := range map[string]int64{"lat-debian12.txt": 1024, "bw-host-memory.txt": 4096} {
		if got, err := perftest.MTU(strings.NewReader(toolstest.File(t, name))); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, want)
		}
	}
	toolstest.Refuses(t, perftest.MTU, toolstest.Refusals{
		{"nothing", "", tools.ErrCut, "empty"},
		{"none", " #bytes #iterations\n", tools.ErrMissing, "Mtu"},
		{"zero", " Mtu             : 0[B]\n", tools.ErrFormat, "Mtu"},
	})
}
