// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mfu

import (
	"fmt"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// Utilisation is a step and what it makes of one GPU.
type Utilisation struct {
	Step, TFLOPS, MFU tools.Figure
	// PeakTFLOPS is what MFU is a share of, dense, of one GPU.
	PeakTFLOPS float64
	// Precision, Device and WorldSize are what the share is of: without them it compares
	// with nothing.
	Precision string
	Device    string
	WorldSize int
}

// String is the share with all that it is of.
func (u Utilisation) String() string {
	return fmt.Sprintf("%.2f %% MFU: %.2f of %g TFLOP/s a GPU (%s, dense), %d ranks on %q", u.MFU.Value, u.TFLOPS.Value, u.PeakTFLOPS, u.Precision, u.WorldSize, u.Device)
}

// Evaluate computes the utilisation anew, from the time of a step alone. What was trained
// and in which precision the caller knows, since it told the benchmark; what the line says
// itself must be the same. peakTFLOPS is --peak-tflops, 0 without.
func (r *Result) Evaluate(shape Shape, precision string, peakTFLOPS float64) (Utilisation, error) {
	if r.Shape != (Shape{}) && r.Shape != shape {
		return Utilisation{}, fmt.Errorf("mfu: %w: the line is of %+v, and %+v was asked for", tools.ErrValue, r.Shape, shape)
	}
	if r.Precision != "" && r.Precision != precision {
		return Utilisation{}, fmt.Errorf("mfu: %w: the line is of precision %s, and %s was asked for", tools.ErrValue, tools.Quote(r.Precision), tools.Quote(precision))
	}
	if err := r.checkShape(shape); err != nil {
		return Utilisation{}, fmt.Errorf("mfu: %w", err)
	}
	peak := peakTFLOPS
	if peak == 0 {
		known, err := Peak(r.Device, precision)
		if err != nil {
			return Utilisation{}, fmt.Errorf("mfu: %w", err)
		}
		peak = known
	}
	if err := (tools.Figure{Name: "--peak-tflops", Unit: "TFLOP/s", Value: peak}).Check(); err != nil {
		return Utilisation{}, fmt.Errorf("mfu: %w", err)
	}
	tflops := shape.FLOPs() / (r.StepMillis * 1e9)
	u := Utilisation{
		Step:       tools.Figure{Name: "avg_step_ms", Unit: "ms", Value: r.StepMillis},
		TFLOPS:     tools.Figure{Name: "tflops_per_gpu", Unit: "TFLOP/s", Value: tflops, HigherIsBetter: true},
		MFU:        tools.Figure{Name: "mfu_percent", Unit: "%", Value: 100 * tflops / peak, HigherIsBetter: true},
		PeakTFLOPS: peak, Precision: precision, Device: r.Device, WorldSize: r.WorldSize,
	}
	if u.MFU.Value > 100 {
		return Utilisation{}, fmt.Errorf("mfu: %w: %.2f TFLOP/s are more than the peak of %g", tools.ErrValue, tflops, peak)
	}
	return u, nil
}
