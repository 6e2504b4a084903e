// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mfu_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/mfu"
	"plumbline.dev/plumbline/internal/bench/tools/toolstest"
)

var published = mfu.Shape{Batch: 4096, Hidden: 8192, Layers: 12}

func output(t testing.TB) string {
	t.Helper()
	return toolstest.File(t, "h100-aligned.txt")
}

func TestParse(t *testing.T) {
	want := &mfu.Result{
		Backend: "nccl", Device: "NVIDIA H100 80GB HBM3", WorldSize: 8, Precision: "bf16", Shape: published,
		StepMillis: 55.496, TFLOPS: 356.62, PeakTFLOPS: 989, Percent: 36.06,
	}
	for name, text := range map[string]string{
		"as printed":           output(t),
		"tagged by mpirun":     strings.Replace(output(t), "MFU_RESULT", "[1,0]<stdout>: MFU_RESULT", 1),
		"through a terminal":   strings.ReplaceAll(output(t), "\n", "\r\n"),
		"followed by the pod":  output(t) + "done\n",
		"a field that is more": strings.Replace(output(t), " final", " steps=20 final", 1),
	} {
		got, err := mfu.Parse(strings.NewReader(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %s, %v", name, diff, err)
		}
	}
}

// The documents' line shows less: what it leaves out is then not held against the rest.
func TestWithoutShape(t *testing.T) {
	got, err := mfu.Parse(strings.NewReader("MFU_RESULT backend=gloo device='cpu' world_size=2 avg_step_ms=100.000 tflops_per_gpu=0.01 peak_tflops_per_gpu=989.0 mfu_percent=0.00101 final_loss=1\n"))
	if err != nil || got.Shape != (mfu.Shape{}) || got.Precision != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	small := mfu.Shape{Batch: 64, Hidden: 1024, Layers: 3}
	if _, err := got.Evaluate(small, "fp32", 0); !errors.Is(err, tools.ErrMissing) || !strings.Contains(err.Error(), "--peak-tflops") {
		t.Errorf("a CPU has no peak here: %v", err)
	}
	if u, err := got.Evaluate(small, "fp32", 0.5); err != nil || u.WorldSize != 2 || u.Precision != "fp32" || u.MFU.Value < 2.4 || u.MFU.Value > 2.42 {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestDevicesByRepr(t *testing.T) {
	line := func(repr string) string {
		return "MFU_RESULT backend=nccl device=" + repr + " world_size=8 avg_step_ms=55.496 tflops_per_gpu=356.62 peak_tflops_per_gpu=989.0 mfu_percent=36.06 final_loss=1\n"
	}
	for repr, want := range map[string]string{
		`'NVIDIA H200'`:             "NVIDIA H200",
		`"Bob's GPU"`:               "Bob's GPU",
		`'a \'quoted\' "one"'`:      `a 'quoted' "one"`,
		`'world_size=64 x'`:         "world_size=64 x",
		`'tab\there\\ \x1b[0m ü'`:   "tab\there\\ \x1b[0m ü",
		`'\u20ac\U0001f600'`:        "€😀",
		`''`:                        "",
		`cpu`:                       "cpu",
		`'MFU_RESULT device=\'x\''`: "MFU_RESULT device='x'",
	} {
		got, err := mfu.Parse(strings.NewReader(line(repr)))
		if err != nil || got.Device != want || got.WorldSize != 8 {
			t.Errorf("%s: %+v, %v, want device %q", repr, got, err, want)
		}
	}
	for repr, want := range map[string]error{
		`'no end`: tools.ErrCut, `'\q'`: tools.ErrFormat, `'\x1'`: tools.ErrFormat, `'\xzz'`: tools.ErrFormat, `'a'b`: tools.ErrFormat,
	} {
		if got, err := mfu.Parse(strings.NewReader(line(repr))); !errors.Is(err, want) {
			t.Errorf("%s: %+v, %v, want %v", repr, got, err, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	whole := output(t)
	change := toolstest.Changes(t, whole)
	toolstest.Refuses(t, mfu.Parse, toolstest.Refusals{
		{"nothing", "", tools.ErrCut, "empty"},
		{"no line", "step 19 ms=55.41\n", tools.ErrCut, "no line begins"},
		{"cut in its last number", strings.TrimSuffix(whole, "12\n"), tools.ErrCut, "last line has no end"},
		{"cut in the middle", whole[:strings.Index(whole, " final")] + "\n", tools.ErrCut, "no final_loss"},
		{"cut in a key", whole[:strings.Index(whole, "nal_loss")] + "\n", tools.ErrCut, `"fi" has no value`},
		{"cut in the device", whole[:strings.Index(whole, " HBM3")] + "\n", tools.ErrCut, "no end"},
		{"two runs", whole + whole, tools.ErrFormat, "second MFU_RESULT"},
		{"a field twice", change("world_size=8", "world_size=8 world_size=9"), tools.ErrFormat, "twice"},
		{"no key", change("dtype=", "d type="), tools.ErrFormat, "want key=value"},
		{"no step", change("avg_step_ms", "best_step_ms"), tools.ErrMissing, "no avg_step_ms"},
		{"NaN", change("55.496", "nan"), tools.ErrValue, "avg_step_ms"},
		{"infinity", change("356.62", "inf"), tools.ErrValue, "tflops_per_gpu"},
		{"zero", change("=36.06", "=0.00"), tools.ErrValue, "mfu_percent"},
		{"negative", change("989.0", "-989.0"), tools.ErrValue, "peak_tflops_per_gpu"},
		{"no number", change("55.496", "fa\x1bst"), tools.ErrFormat, `"fa�st"`},
		{"no ranks", change("world_size=8 ", ""), tools.ErrFormat, "world_size"},
		{"half a rank", change("world_size=8", "world_size=0.5"), tools.ErrFormat, "world_size"},
		{"half a shape", change("layers=12 ", ""), tools.ErrFormat, "layers"},
		{"a share that contradicts", change("36.06", "39.06"), tools.ErrValue, "356.62 of 989 TFLOP/s are 36.06 %"},
		{"TFLOP/s that contradict the step", change("55.496", "60.951"), tools.ErrValue, "324.71 TFLOP/s"},
		{"a shape that contradicts", change("layers=12", "layers=24"), tools.ErrValue, "6·4096·8192²·24"},
	})
}

// The figures of the documents' table.
func TestPublishedTable(t *testing.T) {
	for _, c := range []struct{ step, printed, tflops, percent string }{
		{"55.496", "356.62", "356.62", "36.06"},
		{"60.951", "324.70", "324.71", "32.83"}, // printed from a step that is not rounded
	} {
		r, err := mfu.Parse(strings.NewReader(strings.NewReplacer("55.496", c.step, "356.62", c.printed, "36.06", c.percent).Replace(output(t))))
		if err != nil {
			t.Fatal(err)
		}
		u, err := r.Evaluate(published, mfu.BF16, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`%s %% MFU: %s of 989 TFLOP/s a GPU (bf16, dense), 8 ranks on "NVIDIA H100 80GB HBM3"`, c.percent, c.tflops)
		if u.String() != want {
			t.Errorf("%s, want %s", u, want)
		}
		if u.Step.HigherIsBetter || !u.MFU.HigherIsBetter || !u.TFLOPS.HigherIsBetter {
			t.Errorf("which way is better: %+v", u)
		}
	}
}

func TestPeak(t *testing.T) {
	for device, want := range map[string]float64{
		"NVIDIA H100 80GB HBM3": 989, "NVIDIA H200": 989, "NVIDIA B200": 2250, "NVIDIA GB200": 2500, "NVIDIA GB300": 2500,
		"NVIDIA A100-SXM4-80GB": 312, "AMD Instinct MI300X": 1307.4,
	} {
		if got, err := mfu.Peak(device, mfu.BF16); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", device, got, err, want)
		}
	}
	for _, device := range []string{"", "B200", "NVIDIA GB200 NVL4", "nvidia h200", "NVIDIA H100 80GB HBM3 ", "Tesla T4", "cpu", "NVIDIA\x1bH100"} {
		if got, err := mfu.Peak(device, mfu.BF16); !errors.Is(err, tools.ErrMissing) || !strings.Contains(err.Error(), "--peak-tflops") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v, %v", device, got, err)
		}
	}
	if got, err := mfu.Peak("NVIDIA H200", "fp8"); !errors.Is(err, tools.ErrMissing) || !strings.Contains(err.Error(), "--peak-tflops") {
		t.Errorf("another precision: %v, %v", got, err)
	}
}

func TestEvaluate(t *testing.T) {
	parse := func(old, new string) *mfu.Result {
		r, err := mfu.Parse(strings.NewReader(strings.Replace(output(t), old, new, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	// The script takes a GB200 for a B200 and prints 15.85 %.
	gb200 := parse("'NVIDIA H100 80GB HBM3' world_size=8", "'NVIDIA GB200' world_size=8")
	if u, err := gb200.Evaluate(published, mfu.BF16, 0); err != nil || u.PeakTFLOPS != 2500 || math.Abs(u.MFU.Value-14.265) > 0.01 {
		t.Errorf("%+v, %v", u, err)
	}
	r := parse("", "")
	if u, err := r.Evaluate(published, mfu.BF16, 700); err != nil || u.PeakTFLOPS != 700 || math.Abs(u.MFU.Value-50.946) > 0.01 {
		t.Errorf("a peak that the user gives: %+v, %v", u, err)
	}
	for name, c := range map[string]struct {
		shape     mfu.Shape
		precision string
		peak      float64
		want      error
	}{
		"another shape":      {mfu.Shape{Batch: 4096, Hidden: 8192, Layers: 24}, mfu.BF16, 0, tools.ErrValue},
		"another precision":  {published, "fp32", 67, tools.ErrValue},
		"a peak below zero":  {published, mfu.BF16, -1, tools.ErrValue},
		"a peak of NaN":      {published, mfu.BF16, math.NaN(), tools.ErrValue},
		"more than the peak": {published, mfu.BF16, 300, tools.ErrValue},
	} {
		if u, err := r.Evaluate(c.shape, c.precision, c.peak); !errors.Is(err, c.want) || u != (mfu.Utilisation{}) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	silent := parse("dtype=bf16 batch_size=4096 hidden_size=8192 layers=12 ", "")
	if _, err := silent.Evaluate(mfu.Shape{Batch: 1, Hidden: 1, Layers: 1}, mfu.BF16, 0); !errors.Is(err, tools.ErrValue) {
		t.Errorf("a shape that the step contradicts: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(output(f))
	f.Add(`MFU_RESULT backend=nccl device='a \'b\'' world_size=8 avg_step_ms=1 final_loss=1` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := mfu.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		if r.StepMillis <= 0 || r.WorldSize < 1 {
			t.Errorf("%+v", r)
		}
		if u, err := r.Evaluate(published, mfu.BF16, 0); err == nil && !(u.MFU.Value > 0 && u.MFU.Value <= 100) {
			t.Errorf("%+v", u)
		}
	})
}
