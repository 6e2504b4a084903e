// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mfu

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// Shape is what was trained: the benchmark is told it by its environment, and may say it
// again in its line.
type Shape struct{ Batch, Hidden, Layers int64 }

// FLOPs is how many floating-point operations a step of one rank is.
func (s Shape) FLOPs() float64 {
	return 6 * float64(s.Batch) * float64(s.Hidden) * float64(s.Hidden) * float64(s.Layers)
}

// Result is what one line says.
type Result struct {
	Backend string
	// Device is the GPU's product name, as its driver has it.
	Device    string
	WorldSize int
	// Precision is "" where the line does not say it.
	Precision string
	// Shape is zero where the line does not say it.
	Shape      Shape
	StepMillis float64
	// TFLOPS is the benchmark's own figure, of one GPU, and so are the peak that it took and
	// the share of it. Its peak may be another product's: Evaluate takes none of it.
	TFLOPS, PeakTFLOPS, Percent float64
}

// tag is what mpirun --tag-output puts before a line.
var tag = regexp.MustCompile(`^\[\d+,\d+\]<stdout>:\s?`)

// mark begins the line.
const mark = "MFU_RESULT "

// Parse finds the line in a launcher's output. Rank 0 alone prints it, once.
func Parse(r io.Reader) (*Result, error) {
	lines, err := tools.WholeLines(r)
	if err != nil {
		return nil, fmt.Errorf("mfu: %w", err)
	}
	var result *Result
	for i, line := range lines {
		text, found := strings.CutPrefix(tag.ReplaceAllString(line, ""), mark)
		if !found {
			continue
		}
		if result != nil {
			return nil, fmt.Errorf("mfu: line %d: %w: a second MFU_RESULT, want the output of one run", i+1, tools.ErrFormat)
		}
		if result, err = parseLine(text); err != nil {
			return nil, fmt.Errorf("mfu: line %d: %w", i+1, err)
		}
	}
	if result == nil {
		return nil, fmt.Errorf("mfu: %w: no line begins with MFU_RESULT, the last that the benchmark prints", tools.ErrCut)
	}
	return result, nil
}

func parseLine(text string) (*Result, error) {
	values, err := fields(text)
	if err != nil {
		return nil, err
	}
	// The line ends with the loss.
	if _, whole := values["final_loss"]; !whole {
		return nil, fmt.Errorf("%w: it has no final_loss, its last field", tools.ErrCut)
	}
	result := &Result{Backend: values["backend"], Device: values["device"], Precision: values["dtype"]}
	for _, number := range []struct {
		name string
		into *float64
	}{
		{"avg_step_ms", &result.StepMillis}, {"tflops_per_gpu", &result.TFLOPS},
		{"peak_tflops_per_gpu", &result.PeakTFLOPS}, {"mfu_percent", &result.Percent},
	} {
		text, there := values[number.name]
		if !there {
			return nil, fmt.Errorf("%w: the line has no %s", tools.ErrMissing, number.name)
		}
		if *number.into, err = tools.Number(number.name, text); err != nil {
			return nil, err
		}
		if err := (tools.Figure{Name: number.name, Value: *number.into}).Check(); err != nil {
			return nil, err
		}
	}
	if err := result.readCounts(values); err != nil {
		return nil, err
	}
	if err := result.check(); err != nil {
		return nil, err
	}
	return result, nil
}

// readCounts reads whole numbers: how many ranks there were, and the shape, all of it or
// nothing.
func (r *Result) readCounts(values map[string]string) error {
	ranks, err := count(values, "world_size")
	if err != nil {
		return err
	}
	r.WorldSize = int(ranks)
	if values["batch_size"] == "" && values["hidden_size"] == "" && values["layers"] == "" {
		return nil
	}
	for name, into := range map[string]*int64{"batch_size": &r.Shape.Batch, "hidden_size": &r.Shape.Hidden, "layers": &r.Shape.Layers} {
		if *into, err = count(values, name); err != nil {
			return err
		}
	}
	return nil
}

func count(values map[string]string, name string) (int64, error) {
	value, err := strconv.ParseInt(values[name], 10, 32)
	if err != nil || value < 1 {
		return 0, fmt.Errorf("%s is %s: %w, want a whole number above 0", name, tools.Quote(values[name]), tools.ErrFormat)
	}
	return value, nil
}

// rounding is what the line's own decimals may put its figures apart by.
const rounding = 0.001

// check holds the line's figures against each other: they were computed from one another.
func (r *Result) check() error {
	if want := 100 * r.TFLOPS / r.PeakTFLOPS; !tools.Agree(r.Percent, want, rounding) && !within(r.Percent, want, 0.006) {
		return fmt.Errorf("mfu_percent is %v: %w: %v of %v TFLOP/s are %.2f %%", r.Percent, tools.ErrValue, r.TFLOPS, r.PeakTFLOPS, want)
	}
	if r.Shape == (Shape{}) {
		return nil
	}
	return r.checkShape(r.Shape)
}

func (r *Result) checkShape(shape Shape) error {
	if want := shape.FLOPs() / (r.StepMillis * 1e9); !tools.Agree(r.TFLOPS, want, rounding) && !within(r.TFLOPS, want, 0.006) {
		return fmt.Errorf("tflops_per_gpu is %v: %w: 6·%d·%d²·%d operations in %v ms are %.2f TFLOP/s",
			r.TFLOPS, tools.ErrValue, shape.Batch, shape.Hidden, shape.Layers, r.StepMillis, want)
	}
	return nil
}

func within(a, b, distance float64) bool { return a-b <= distance && b-a <= distance }
