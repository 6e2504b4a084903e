// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltests

import (
	"fmt"
	"math"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// Result is one run.
type Result struct {
	Rows []Row
	// AverageGBs is the bus bandwidth, averaged over all rows and both places.
	AverageGBs float64
}

// Row is one size of message.
type Row struct {
	Bytes int64
	// Type and Redop are such as float and sum.
	Type, Redop         string
	OutOfPlace, InPlace Measure
}

// Measure is one of a row's two: into another buffer, or into the same.
type Measure struct {
	Micros, AlgGBs, BusGBs float64
	// Wrong is how many elements were wrong; nil where nobody looked (-c 0).
	Wrong *int64
}

// Average is the figure of the whole run.
func (r *Result) Average() (tools.Figure, error) {
	return measured("avg_busbw", r.AverageGBs)
}

// BusBandwidth is the figure of one size, out of place.
func (r *Result) BusBandwidth(bytes int64) (tools.Figure, error) {
	for _, row := range r.Rows {
		if row.Bytes == bytes {
			return measured(fmt.Sprintf("busbw of %d bytes", bytes), row.OutOfPlace.BusGBs)
		}
	}
	return tools.Figure{}, fmt.Errorf("nccl-tests: busbw of %d bytes: %w: no row has that size", bytes, tools.ErrMissing)
}

// Checked says whether each result was compared with what it should be.
func (r *Result) Checked() bool {
	for _, row := range r.Rows {
		if row.OutOfPlace.Wrong == nil || row.InPlace.Wrong == nil {
			return false
		}
	}
	return true
}

func measured(name string, value float64) (tools.Figure, error) {
	figure := tools.Figure{Name: name, Unit: "GB/s", Value: value, HigherIsBetter: true}
	if err := figure.Check(); err != nil {
		return tools.Figure{}, fmt.Errorf("nccl-tests: %w", err)
	}
	return figure, nil
}

// add takes a row, in which small messages may well have a bandwidth of 0.00.
func (r *Result) add(row Row) error {
	if row.Bytes < 0 {
		return fmt.Errorf("size is %d: %w, want 0 or more", row.Bytes, tools.ErrValue)
	}
	for _, m := range []Measure{row.OutOfPlace, row.InPlace} {
		if err := (tools.Figure{Name: "time", Unit: "us", Value: m.Micros}).Check(); err != nil {
			return fmt.Errorf("%d bytes: %w", row.Bytes, err)
		}
		for _, value := range []float64{m.AlgGBs, m.BusGBs} {
			if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
				return fmt.Errorf("%d bytes: bandwidth is %v: %w, want a number", row.Bytes, value, tools.ErrValue)
			}
		}
		if m.Wrong != nil && *m.Wrong != 0 {
			return fmt.Errorf("%d bytes: %w: %d elements are wrong (#wrong)", row.Bytes, tools.ErrFailed, *m.Wrong)
		}
	}
	r.Rows = append(r.Rows, row)
	return nil
}

// check holds the average against the rows: one that something else wrote over is in the
// average alone. Bandwidths of less than 1000 have two decimals, larger ones fewer.
func (r *Result) check() error {
	if len(r.Rows) == 0 {
		return fmt.Errorf("%w: no row of figures", tools.ErrCut)
	}
	sum := 0.0
	for _, row := range r.Rows {
		sum += row.OutOfPlace.BusGBs + row.InPlace.BusGBs
	}
	mean := sum / float64(2*len(r.Rows))
	if slack := max(0.006, 1e-4*mean); !(math.Abs(mean-r.AverageGBs) <= slack) {
		return fmt.Errorf("average bus bandwidth is %v: %w: that of the %d rows is %.4f", r.AverageGBs, tools.ErrValue, len(r.Rows), mean)
	}
	return nil
}
