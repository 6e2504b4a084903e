// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package neper_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/neper"
	"plumbline.dev/plumbline/internal/bench/tools/toolstest"
)

func TestParse(t *testing.T) {
	for name, want := range map[string][]neper.Result{
		"reader.txt": {{Throughput: toolstest.Gbits("throughput", 11.176997361)}},
		// The published run, whose sum is the document's 354.9 Gbit/s.
		"grep-two-nics.txt": {
			{File: "test0.log", Throughput: toolstest.Gbits("throughput", 180.165511242), Remote: toolstest.Gbits("remote_throughput", 177.503231653)},
			{File: "test1.log", Throughput: toolstest.Gbits("throughput", 174.727081480), Remote: toolstest.Gbits("remote_throughput", 175.469311719)},
		},
	} {
		got, err := neper.Parse(strings.NewReader(toolstest.File(t, name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRefuses(t *testing.T) {
	whole := toolstest.File(t, "reader.txt")
	lines := strings.SplitAfter(whole, "\n")
	toolstest.Refuses(t, neper.Parse, toolstest.Refusals{
		{"a side that only writes", toolstest.File(t, "writer-only.txt"), tools.ErrMissing, "want neper with -rw"},
		{"one of two that grep found", strings.Replace(toolstest.File(t, "grep-two-nics.txt"), "test1.log:remote", "test1.log:", 1), tools.ErrCut, `"test1.log"`},
		{"cut before its last line", strings.Join(lines[:len(lines)-2], ""), tools.ErrCut, "last lines"},
		{"cut in its last number", strings.TrimSuffix(toolstest.File(t, "grep-two-nics.txt"), "11719\n"), tools.ErrCut, "no end"},
		{"nothing", "", tools.ErrCut, "empty"},
		{"log alone", "I1120 10:00:00.000000 12 control_plane.c:95] connected\n", tools.ErrCut, "no line"},
		{"what neper gave up", "F1120 10:00:00.000000 12 control_plane.c:95] connect: Connection \x1brefused\n" + whole, tools.ErrFailed, "Connection �refused"},
		{"what neper gave up, by grep", "test0.log:F1120 10:00:00.000000 12 x.c:9] connect\n", tools.ErrFailed, "x.c:9"},
		{"two runs", whole + whole, tools.ErrFormat, "twice"},
		{"another unit", strings.Replace(whole, "Mbit/s", "MB/s", 1), tools.ErrFormat, "MB/s"},
		{"no unit", strings.Replace(whole, "throughput_units=Mbit/s\n", "", 1), tools.ErrFormat, "throughput_units"},
		{"figures that contradict", strings.Replace(whole, "throughput=11177.00", "throughput=1117.70", 1), tools.ErrValue, "11176997361"},
		{"no number", strings.Replace(whole, "=11177.00", "=fast", 1), tools.ErrFormat, "fast"},
		{"NaN", strings.Replace(whole, "=11177.00", "=nan", 1), tools.ErrValue, "nan"},
		{"negative", strings.NewReplacer("=11177.00", "=-1.00", "=11176997361", "=-1000000").Replace(whole), tools.ErrValue, "above 0"},
		{"zero that was read", strings.NewReplacer("=11177.00", "=0.00", "=11176997361", "=0").Replace(whole), tools.ErrValue, "above 0"},
		{"no throughput, yet a rate", strings.Replace(whole, "throughput=11177.00\n", "", 1), tools.ErrFormat, `"throughput" is ""`},
		{"a rate that is none", strings.Replace(whole, "=11176997361", "=inf", 1), tools.ErrValue, "Inf"},
		{"the other side's", strings.Replace(whole, "remote_throughput=0", "remote_throughput=-5", 1), tools.ErrValue, "remote_throughput"},
		{"the other side's is none", strings.Replace(whole, "remote_throughput=0", "remote_throughput=x", 1), tools.ErrFormat, "remote_throughput"},
	})
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"reader.txt", "writer-only.txt", "grep-two-nics.txt"} {
		f.Add(toolstest.File(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		results, err := neper.Parse(strings.NewReader(text))
		if (results == nil) == (err == nil) {
			t.Fatalf("%+v and %v", results, err)
		}
		for _, r := range results {
			if err := r.Throughput.Check(); err != nil {
				t.Error(err)
			}
		}
	})
}
