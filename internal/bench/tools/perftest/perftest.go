// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package perftest

import (
	"fmt"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// Result is one run.
type Result struct {
	Rows []Row
}

// Row is one size of message.
type Row struct {
	Bytes      int64
	Iterations int64
	Figures    []tools.Figure
}

// Figure is one of a size's: t_typical, t_avg, t_min, t_max, t_99, t_99.9 of a latency, and
// bw_average, bw_peak and msg_rate of a bandwidth. t_typical is the median.
func (r *Result) Figure(name string, bytes int64) (tools.Figure, error) {
	for _, row := range r.Rows {
		if row.Bytes != bytes {
			continue
		}
		for _, figure := range row.Figures {
			if figure.Name == name {
				return figure, nil
			}
		}
		return tools.Figure{}, fmt.Errorf("perftest: %s of %d bytes: %w", name, bytes, tools.ErrMissing)
	}
	if len(r.Rows) == 1 {
		return tools.Figure{}, fmt.Errorf("perftest: %s of %d bytes: %w: there is %d bytes alone, and with -a the file of --out_json keeps the last size, want the table",
			name, bytes, tools.ErrMissing, r.Rows[0].Bytes)
	}
	return tools.Figure{}, fmt.Errorf("perftest: %s of %d bytes: %w: no row has that size", name, bytes, tools.ErrMissing)
}

// column is what is read of perftest's columns.
type column struct {
	figure tools.Figure
	// mayBeZero is of what perftest leaves at zero where it did not measure it: the peak of a
	// run by duration, and a rate that its decimals cannot hold.
	mayBeZero bool
}

// unitOf are units as a header has them in its brackets. perftest's MB are 2^20 bytes, which
// newer releases call MiB.
var unitOf = map[string]string{
	"usec": "us", "Gb/sec": "Gbit/s", "MB/sec": "MiB/s", "MiB/sec": "MiB/s", "Mpps": "Mpps",
}

// columns are those that are read, by their names in a table and in JSON.
var columns = map[string]column{
	"t_min":            {figure: tools.Figure{Name: "t_min"}},
	"t_max":            {figure: tools.Figure{Name: "t_max"}},
	"t_typical":        {figure: tools.Figure{Name: "t_typical"}},
	"t_avg":            {figure: tools.Figure{Name: "t_avg"}},
	"99% percentile":   {figure: tools.Figure{Name: "t_99"}},
	"99.9% percentile": {figure: tools.Figure{Name: "t_99.9"}},
	"percentile_99":    {figure: tools.Figure{Name: "t_99"}},
	"percentile_99.9":  {figure: tools.Figure{Name: "t_99.9"}},
	"BW average":       {figure: tools.Figure{Name: "bw_average", HigherIsBetter: true}},
	"BW peak":          {figure: tools.Figure{Name: "bw_peak", HigherIsBetter: true}, mayBeZero: true},
	"MsgRate":          {figure: tools.Figure{Name: "msg_rate", HigherIsBetter: true}, mayBeZero: true},
	"BW_average":       {figure: tools.Figure{Name: "bw_average", HigherIsBetter: true}},
	"BW_peak":          {figure: tools.Figure{Name: "bw_peak", HigherIsBetter: true}, mayBeZero: true},
}

// add reads one value of a row.
func (r *Row) add(name, unit, text string) error {
	known, read := columns[name]
	if !read {
		return nil
	}
	value, err := tools.Number(name, text)
	if err != nil {
		return err
	}
	if value == 0 && known.mayBeZero {
		return nil
	}
	figure := known.figure
	figure.Value, figure.Unit = value, unitOf[unit]
	if figure.Unit == "" {
		return fmt.Errorf("%s is in %s: %w, want usec, Gb/sec, MiB/sec or Mpps", tools.Quote(name), tools.Quote(unit), tools.ErrFormat)
	}
	if err := figure.Check(); err != nil {
		return err
	}
	r.Figures = append(r.Figures, figure)
	return nil
}

// check wants the figure for which such a test is run.
func (r *Row) check() error {
	for _, figure := range r.Figures {
		if figure.Name == "t_avg" || figure.Name == "bw_average" {
			return nil
		}
	}
	return fmt.Errorf("%d bytes: %w: neither t_avg nor BW average", r.Bytes, tools.ErrMissing)
}
