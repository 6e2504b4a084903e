// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltests

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// tag is what mpirun --tag-output puts before a line.
var tag = regexp.MustCompile(`^\[\d+,\d+\]<std(?:out|err)>:\s?`)

// gaveUp are lines of nccl-tests, mpirun and its launcher that say that a run failed. Of
// warnings mpirun has many.
var gaveUp = regexp.MustCompile(`Test (?:NCCL|CUDA) failure|: Test failure |^# error: \S|mpirun (?:noticed|detected) that|` +
	`MPI_ABORT was invoked|ORTE was unable|ORTE does not know|Invalid number of GPUs|(?:all_reduce_perf|mpirun): (?:command )?not found|` +
	`unable to find the specified executable`)

// headings are the columns that are read, in the order of a row.
var headings = []string{"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"}

// ParseTable reads what is printed:
//
//	#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//	#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
//	  8589934592    2147483648     float     sum      -1   269368   31.89   31.89      0   269407   31.88   31.88      0
//	# Out of bounds values : 0 OK
//	# Avg bus bandwidth    : 15.5188
func ParseTable(r io.Reader) (*Result, error) {
	lines, err := tools.Lines(r)
	if err != nil {
		return nil, fmt.Errorf("nccl-tests: %w", err)
	}
	p := tableParser{}
	for i, line := range lines {
		if err := p.line(tag.ReplaceAllString(line, "")); err != nil {
			return nil, fmt.Errorf("nccl-tests: line %d: %w", i+1, err)
		}
	}
	if !p.inBounds || !p.averaged {
		return nil, fmt.Errorf("nccl-tests: %w: no \"# Out of bounds values\" and \"# Avg bus bandwidth\", its last lines", tools.ErrCut)
	}
	if err := p.result.check(); err != nil {
		return nil, fmt.Errorf("nccl-tests: %w", err)
	}
	return &p.result, nil
}

type tableParser struct {
	result Result
	// columns are the places of headings in a row, nil until the header was read.
	columns []int
	// width is how many words a row has.
	width int

	inBounds, averaged bool
}

func (p *tableParser) line(line string) error {
	if gaveUp.MatchString(line) {
		return fmt.Errorf("%w: %s", tools.ErrFailed, tools.Quote(line))
	}
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
	case len(words) > 2 && words[0] == "#" && words[1] == "size":
		return p.header(line, words[1:])
	case strings.HasPrefix(line, "# Out of bounds values"):
		if !strings.HasSuffix(strings.TrimSpace(line), ": 0 OK") {
			return fmt.Errorf("%w: %s", tools.ErrFailed, tools.Quote(line))
		}
		p.inBounds = true
	case strings.HasPrefix(line, "# Avg bus bandwidth"):
		return p.average(line)
	case p.columns != nil && !p.averaged && isNumber(words[0]):
		return p.row(line, words)
	}
	return nil
}

func (p *tableParser) header(line string, words []string) error {
	if p.columns != nil {
		return fmt.Errorf("%w: a second table, want the output of one run", tools.ErrFormat)
	}
	after := 0
	for _, heading := range headings {
		at := slices.Index(words[after:], heading)
		if at < 0 {
			return fmt.Errorf("%w: %s, want the columns %s", tools.ErrFormat, tools.Quote(line), strings.Join(headings, " "))
		}
		p.columns = append(p.columns, after+at)
		after += at + 1
	}
	p.width = len(words)
	if words[len(words)-1] == "timestamp" {
		p.width++ // a date and a time
	}
	return nil
}

func (p *tableParser) row(line string, words []string) error {
	if len(words) != p.width {
		return fmt.Errorf("%w: %s has %d words, want a row of %d", tools.ErrFormat, tools.Quote(line), len(words), p.width)
	}
	cells := make([]string, len(p.columns))
	for i, at := range p.columns {
		cells[i] = words[at]
	}
	row := Row{Type: cells[2], Redop: cells[3]}
	var err error
	if row.Bytes, err = strconv.ParseInt(cells[0], 10, 64); err != nil {
		return fmt.Errorf("size is %s: %w, want a number of bytes", tools.Quote(cells[0]), tools.ErrFormat)
	}
	if row.OutOfPlace, err = readMeasure(cells[5:9]); err != nil {
		return err
	}
	if row.InPlace, err = readMeasure(cells[9:]); err != nil {
		return err
	}
	return p.result.add(row)
}

func readMeasure(cells []string) (m Measure, err error) {
	for i, into := range []*float64{&m.Micros, &m.AlgGBs, &m.BusGBs} {
		if *into, err = tools.Number(headings[5+i], cells[i]); err != nil {
			return Measure{}, err
		}
	}
	if cells[3] == "N/A" {
		return m, nil
	}
	wrong, err := tools.Number("#wrong", cells[3])
	if err != nil {
		return Measure{}, err
	}
	m.Wrong, err = elements(wrong)
	return m, err
}

// elements is a count, which nccl-tests write as any number, a million as 1e+06.
func elements(count float64) (*int64, error) {
	if !(count >= 0 && count < 1<<62) {
		return nil, fmt.Errorf("#wrong is %v: %w, want a count of elements", count, tools.ErrValue)
	}
	whole := int64(count)
	return &whole, nil
}

func (p *tableParser) average(line string) error {
	_, text, _ := strings.Cut(line, ":")
	words := strings.Fields(text)
	if len(words) == 0 {
		return fmt.Errorf("%w: %s", tools.ErrCut, tools.Quote(line))
	}
	if len(words) > 1 && words[1] != "OK" {
		return fmt.Errorf("%w: %s, less than NCCL_TESTS_MIN_BW wants", tools.ErrFailed, tools.Quote(line))
	}
	average, err := tools.Number("Avg bus bandwidth", words[0])
	p.result.AverageGBs, p.averaged = average, true
	return err
}

func isNumber(word string) bool { return word[0] >= '0' && word[0] <= '9' }
