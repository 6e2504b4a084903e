// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/golden"
)

// measured is a report of turns, given as the values of A and B.
func measured(t testing.TB, turns ...[2]float64) *report.Report {
	t.Helper()
	nic := func(role, device string) plan.Device {
		return plan.Device{Role: role, Request: "nic", Driver: "dra.net", Pool: "n1", Device: device}
	}
	r := &report.Report{
		Schema: report.Schema, Kind: plan.TCP, Variable: plan.NIC, Started: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), Seconds: 5,
		Versions: report.Versions{Plumbline: "0.1.0", Kubernetes: "v1.37.0", Tool: "iperf 3.12"},
		Figure:   report.Figure{Name: "throughput", Unit: "Gbit/s", HigherIsBetter: true},
		A:        report.Arm{Name: "nic", Interface: "bench0", Devices: []plan.Device{nic("server", "nic0"), nic("client", "nic1")}, Addresses: []string{"192.168.200.1", "192.168.200.2"}},
		B:        report.Arm{Name: "eth0", Interface: "eth0", Devices: []plan.Device{}, Addresses: []string{"10.88.0.5", "10.88.0.6"}},
		Pods:     []report.Pod{{Role: "server", Node: "n1", Kernel: "6.1.0", Image: "bench"}, {Role: "client", Node: "n1", Kernel: "6.1.0", Image: "bench"}},
	}
	good := []report.Verified{{Role: "server", AsClaimed: "True", Aligned: "True"}, {Role: "client", AsClaimed: "True", Aligned: "True"}}
	for i, turn := range turns {
		for at, letter := range []report.Letter{report.A, report.B} {
			r.Runs = append(r.Runs, report.Run{Turn: i + 1, Arm: letter, Value: &turn[at], Sent: 1000, Received: 990, Before: good, After: good})
		}
	}
	if err := r.Judge(7); err != nil {
		t.Fatal(err)
	}
	return r
}

var slower = [][2]float64{{10, 8}, {10.2, 8.1}, {9.9, 8.2}, {10.1, 7.9}, {10, 8}, {10.3, 8.1}}

func thrownOut(t testing.TB) *report.Report {
	t.Helper()
	r := measured(t, slower...)
	r.Runs[0].ThrownOut, r.Runs[0].Value = "12 bytes were sent by bench0, 0.00 of the 6250000000 that the tool says", nil
	if err := r.Judge(7); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGoldens(t *testing.T) {
	for name, r := range map[string]*report.Report{"slower": measured(t, slower...), "thrown-out": thrownOut(t), "few": measured(t, [2]float64{10, 8})} {
		var text, picture strings.Builder
		if err := errors.Join(r.WriteText(&text), r.WriteSVG(&picture)); err != nil {
			t.Fatal(name, err)
		}
		golden.Assert(t, "testdata/"+name+".txt", text.String())
		golden.Assert(t, "testdata/"+name+".svg", picture.String())
	}
	encoded, err := json.MarshalIndent(thrownOut(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/thrown-out.json", string(encoded)+"\n")
}

// A verdict is of the runs that count: a turn with one run thrown out is no turn, and a
// difference that is within what the turns scatter is none.
func TestJudge(t *testing.T) {
	for want, r := range map[string]*report.Report{
		"eth0 throughput is lower, worse: eth0 is 0.801 times nic": measured(t, slower...),
		"of 5 turns": thrownOut(t),
		"too few runs: 1 turn counts, and fewer than 5 say nothing":  measured(t, [2]float64{10, 8}),
		"too few runs: 0 turns count, and fewer than 5 say nothing":  measured(t),
		"no difference seen: eth0 is":                                measured(t, [2]float64{9, 10}, [2]float64{10, 9}, [2]float64{11, 10}, [2]float64{10, 11}, [2]float64{9, 10}, [2]float64{10, 9}),
		"eth0 throughput is higher, better: eth0 is 2.000 times nic": measured(t, [2]float64{1, 2}, [2]float64{1, 2}, [2]float64{1, 2}, [2]float64{1, 2}, [2]float64{1, 2}),
	} {
		if !strings.Contains(r.Sentence(), want) {
			t.Errorf("%s, want %q in it", r.Sentence(), want)
		}
	}
}

func TestRead(t *testing.T) {
	encode := func(r *report.Report) string {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	whole := encode(thrownOut(t))
	if r, err := report.Read(strings.NewReader(whole)); err != nil || encode(r) != whole {
		t.Errorf("%v: a report is not what was written", err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"cut":            {whole[:len(whole)/2], "unexpected end"},
		"another schema": {strings.Replace(whole, report.Schema, "plumbline.dev/bench/v9", 1), "plumbline.dev/bench/v9"},
		"another answer": {strings.Replace(whole, `"answer":"lower"`, `"answer":"higher"`, 1), `it says "higher" of 5 turns, and its runs come to "lower" of 5`},
		"a zero":         {strings.Replace(whole, `"value":8.1`, `"value":0`, 1), "no measurement"},
		"another median": {strings.Replace(whole, `"medianB":8.1`, `"medianB":2.1`, 1), "median of B is 2.1, and its runs come to 8.1"},
		"another ratio":  {strings.Replace(whole, `"ratio":0.8`, `"ratio":0.1`, 1), "ratio is 0.1"},
		"another end":    {strings.Replace(whole, `"low":0.7`, `"low":0.1`, 1), "lower end is 0.1"},
		"no end":         {strings.Replace(whole, `"high":`, `"height":`, 1), "upper end is none, and its runs come to 0.8"},
		// Who counts up to that does not come back.
		"a far turn":  {strings.Replace(whole, `"turn":6`, `"turn":9000000000000000000`, 1), "its runs come to \"too few runs\" of 4"},
		"a past turn": {strings.Replace(whole, `"turn":6`, `"turn":-6`, 1), "turn -6: want 0 or more"},
		"a third arm": {strings.Replace(whole, `"arm":"A"`, `"arm":"C"`, 1), `run 1 is of arm "C": want A or B`},
		"a run twice": {strings.Replace(whole, `"turn":2`, `"turn":3`, 1), "a second one of arm A in turn 3"},
		"values":      {strings.Replace(whole, `"value":8.1`, `"value":8.1,"values":[8.1,8.2,8.3]`, 1), "is 8.1, and the median of its values is 8.2"},
		"no values":   {strings.Replace(whole, `"value":8.1`, `"value":8.1,"values":[0]`, 1), "no measurement"},
		"empty":       {"", "unexpected end"},
	} {
		if _, err := report.Read(strings.NewReader(c.text)); !errors.Is(err, report.ErrReport) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

func TestWriteComparison(t *testing.T) {
	first := measured(t, slower...)
	even := measured(t, [2]float64{10, 10}, [2]float64{10, 10.1}, [2]float64{10, 9.9}, [2]float64{10, 10}, [2]float64{10, 10})
	for _, c := range []struct {
		second *report.Report
		want   string
	}{
		{first, "no difference seen: the intervals of the ratio overlap"},
		{even, "the second's ratio is higher: the intervals do not overlap"},
	} {
		var out strings.Builder
		if err := report.WriteComparison(&out, first, c.second); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: %s, want %q in it", err, out.String(), c.want)
		}
	}
	var out strings.Builder
	if err := report.WriteComparison(&out, even, first); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/comparison.txt", out.String())
	for name, change := range map[string]func(*report.Report){
		"kind":                         func(r *report.Report) { r.Kind = "other" },
		"unit":                         func(r *report.Report) { r.Figure.Unit = "us" },
		"seconds":                      func(r *report.Report) { r.Seconds = 1 },
		"repeats \"1\" and \"3\"":      func(r *report.Report) { r.Repeats = 3 },
		"report 2 has no interval":     func(r *report.Report) { r.Verdict.Low = nil },
		"a claimed NIC in one and":     func(r *report.Report) { r.A.Devices = nil },
		"second arm \"eth0\" and \"\"": func(r *report.Report) { r.B.Name = "" },
	} {
		other := measured(t, slower...)
		change(other)
		if err := report.WriteComparison(&out, first, other); !errors.Is(err, report.ErrOther) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q in it", err, name)
		}
	}
}
