// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package neper

import (
	"fmt"
	"io"
	"math"
	"regexp"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// Result is one run's output of one side.
type Result struct {
	// File is what grep put before each line, "" without.
	File string
	// Throughput is what this side read.
	Throughput tools.Figure
	// Remote is what the other side read, by its own count; zero where it only wrote.
	Remote tools.Figure
}

// line is key=value, behind a file's name where grep found it in several.
var line = regexp.MustCompile(`^(?:([^=\s]*):)?([a-z][a-z0-9_]*)=(.*)$`)

// failed are neper's own words for what went wrong: a letter for how bad, the month and the
// day.
var failed = regexp.MustCompile(`^(?:[^\s]*:)?F\d{4} `)

// bitsPerSecond has the units that neper writes, by what one of them is.
var bitsPerSecond = map[string]float64{"bit/s": 1, "Kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}

// Parse reads the output of one run, or what grep found in that of several.
func Parse(r io.Reader) ([]Result, error) {
	lines, err := tools.WholeLines(r)
	if err != nil {
		return nil, fmt.Errorf("neper: %w", err)
	}
	runs, err := collect(lines)
	if err != nil {
		return nil, fmt.Errorf("neper: %w", err)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("neper: %w: no line is key=value", tools.ErrCut)
	}
	results := make([]Result, len(runs))
	for i, run := range runs {
		if results[i], err = run.result(); err != nil {
			if run.file != "" {
				err = fmt.Errorf("%s: %w", tools.Quote(run.file), err)
			}
			return nil, fmt.Errorf("neper: %w", err)
		}
	}
	return results, nil
}

// run is what one file says.
type run struct {
	file   string
	values map[string]string
}

func collect(lines []string) ([]*run, error) {
	var runs []*run
	byFile := map[string]*run{}
	for _, text := range lines {
		if failed.MatchString(text) {
			return nil, fmt.Errorf("%w: %s", tools.ErrFailed, tools.Quote(text))
		}
		found := line.FindStringSubmatch(text)
		if found == nil {
			continue // what neper logs of itself
		}
		file, key, value := found[1], found[2], found[3]
		if byFile[file] == nil {
			byFile[file] = &run{file: file, values: map[string]string{}}
			runs = append(runs, byFile[file])
		}
		if _, twice := byFile[file].values[key]; twice {
			return nil, fmt.Errorf("%w: %s is there twice, want the output of one run", tools.ErrFormat, tools.Quote(key))
		}
		byFile[file].values[key] = value
	}
	return runs, nil
}

func (r *run) result() (Result, error) {
	remote, whole := r.values["remote_throughput"]
	local, haveLocal := r.values["local_throughput"]
	if !whole || !haveLocal {
		return Result{}, fmt.Errorf("%w: no local_throughput and remote_throughput, neper's last lines", tools.ErrCut)
	}
	read, err := tools.Number("local_throughput", local)
	if err != nil {
		return Result{}, err
	}
	throughput, measured := r.values["throughput"]
	if !measured && read == 0 {
		return Result{}, fmt.Errorf("%w: this side only wrote (local_throughput=0, no throughput=): want neper with -rw, or the other side's output", tools.ErrMissing)
	}
	shown, err := tools.Number("throughput", throughput)
	if err != nil {
		return Result{}, err
	}
	unit := r.values["throughput_units"]
	if bitsPerSecond[unit] == 0 {
		return Result{}, fmt.Errorf("throughput_units is %s: %w, want bit/s, Kbit/s, Mbit/s or Gbit/s", tools.Quote(unit), tools.ErrFormat)
	}
	result := Result{File: r.file, Throughput: gbits("throughput", read)}
	if err := result.Throughput.Check(); err != nil {
		return Result{}, err
	}
	// throughput has two decimals, and whatever unit was asked for.
	if difference := math.Abs(shown - read/bitsPerSecond[unit]); !(difference <= 0.006) {
		return Result{}, fmt.Errorf("throughput is %s %s: %w: local_throughput is %s bit/s", tools.Quote(throughput), unit, tools.ErrValue, tools.Quote(local))
	}
	if result.Remote, err = remoteFigure(remote); err != nil {
		return Result{}, err
	}
	return result, nil
}

// remoteFigure is nothing where the other side only wrote.
func remoteFigure(text string) (tools.Figure, error) {
	bits, err := tools.Number("remote_throughput", text)
	if err != nil || bits == 0 {
		return tools.Figure{}, err
	}
	figure := gbits("remote_throughput", bits)
	return figure, figure.Check()
}

func gbits(name string, bits float64) tools.Figure {
	return tools.Figure{Name: name, Unit: "Gbit/s", Value: bits / 1e9, HigherIsBetter: true}
}
