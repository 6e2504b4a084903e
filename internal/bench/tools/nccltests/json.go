// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltests

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// document has no env: what has no field is skipped, unread. The same goes for args.
type document struct {
	Results []struct {
		Size       int64    `json:"size"`
		Type       string   `json:"type"`
		Redop      string   `json:"redop"`
		OutOfPlace *measure `json:"out_of_place"`
		InPlace    *measure `json:"in_place"`
	} `json:"results"`
	OutOfBounds *struct {
		Count int64 `json:"count"`
	} `json:"out_of_bounds"`
	Average *struct {
		Bandwidth number `json:"bandwidth"`
		Okay      string `json:"okay"`
	} `json:"average_bus_bandwidth"`
	Errors []string `json:"errors"`
	End    *string  `json:"end_time"`
}

type measure struct {
	Time  *number `json:"time"`
	AlgBW *number `json:"alg_bw"`
	BusBW *number `json:"bus_bw"`
	Wrong *number `json:"nwrong"`
}

// number is one, or "nan".
type number float64

// UnmarshalJSON says nothing of what stood there.
func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == `"nan"` {
		*n = number(math.NaN())
		return nil
	}
	if json.Unmarshal(text, (*float64)(n)) != nil {
		return fmt.Errorf("%w: a figure is no number", tools.ErrFormat)
	}
	return nil
}

// ParseJSON reads the file that -J names.
func ParseJSON(r io.Reader) (*Result, error) {
	var d document
	if err := tools.JSON(r, &d); err != nil {
		return nil, fmt.Errorf("nccl-tests -J: %w", err)
	}
	result, err := d.result()
	if err != nil {
		return nil, fmt.Errorf("nccl-tests -J: %w", err)
	}
	return result, nil
}

func (d *document) result() (*Result, error) {
	for _, text := range d.Errors {
		if text != "" {
			return nil, fmt.Errorf("%w: %s", tools.ErrFailed, tools.Quote(text))
		}
	}
	if d.OutOfBounds == nil || d.Average == nil || d.End == nil {
		return nil, fmt.Errorf("%w: the object has no out_of_bounds, average_bus_bandwidth and end_time, its last keys", tools.ErrCut)
	}
	if d.OutOfBounds.Count != 0 {
		return nil, fmt.Errorf("%w: %d values are out of bounds", tools.ErrFailed, d.OutOfBounds.Count)
	}
	if d.Average.Okay == "false" {
		return nil, fmt.Errorf("%w: the average is less than NCCL_TESTS_MIN_BW wants", tools.ErrFailed)
	}
	result := &Result{AverageGBs: float64(d.Average.Bandwidth)}
	for _, row := range d.Results {
		out, err := row.OutOfPlace.read()
		if err != nil {
			return nil, fmt.Errorf("%d bytes, out of place: %w", row.Size, err)
		}
		in, err := row.InPlace.read()
		if err != nil {
			return nil, fmt.Errorf("%d bytes, in place: %w", row.Size, err)
		}
		if err := result.add(Row{Bytes: row.Size, Type: row.Type, Redop: row.Redop, OutOfPlace: out, InPlace: in}); err != nil {
			return nil, err
		}
	}
	if err := result.check(); err != nil {
		return nil, err
	}
	return result, nil
}

func (m *measure) read() (Measure, error) {
	if m == nil || m.Time == nil || m.AlgBW == nil || m.BusBW == nil {
		return Measure{}, fmt.Errorf("%w: want time, alg_bw and bus_bw", tools.ErrMissing)
	}
	read := Measure{Micros: float64(*m.Time), AlgGBs: float64(*m.AlgBW), BusGBs: float64(*m.BusBW)}
	if m.Wrong == nil {
		return read, nil
	}
	var err error
	read.Wrong, err = elements(float64(*m.Wrong))
	return read, err
}
