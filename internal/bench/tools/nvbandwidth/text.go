// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvbandwidth

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// ParseText reads what nvbandwidth prints without -j:
//
//	Running host_device_latency_sm.
//	memory latency SM CPU(row) <-> GPU(column) (ns)
//	           0
//	 0   1191.19
//
//	SUM host_device_latency_sm 1191.19
//
// A test that does not run has a line instead, "Waived:" or "ERROR:".
func ParseText(r io.Reader) (*Result, error) {
	lines, err := tools.Lines(r)
	if err != nil {
		return nil, fmt.Errorf("nvbandwidth: %w", err)
	}
	p := textParser{}
	for i, line := range lines {
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("nvbandwidth: line %d: %w", i+1, err)
		}
	}
	if p.running != "" {
		return nil, fmt.Errorf("nvbandwidth: %w: %s has no SUM", tools.ErrCut, tools.Quote(p.running))
	}
	if len(p.result.Tests) == 0 && p.result.Waived == 0 {
		return nil, fmt.Errorf("nvbandwidth: %w: no test ran", tools.ErrCut)
	}
	return &p.result, nil
}

type textParser struct {
	result Result
	// running is the test that has begun, until its last SUM.
	running string
	// open is the matrix that has a description and no SUM yet.
	open *Test
	// columns is how many cells its rows have; 0 until its header was read.
	columns int
}

func (p *textParser) line(line string) error {
	if err := failure(line); err != nil {
		return err
	}
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
	case words[0] == "Running" && len(words) == 2:
		if p.running != "" {
			return fmt.Errorf("%w: %s has no SUM", tools.ErrCut, tools.Quote(p.running))
		}
		p.running = strings.TrimSuffix(words[1], ".")
	case words[0] == "SUM":
		return p.sum(words)
	case p.open != nil:
		return p.row(line, words)
	case words[0] == "Waived:":
		p.result.Waived++
		p.running = ""
	case strings.HasPrefix(line, "nvbandwidth Version:"):
		p.result.Version = words[len(words)-1]
	case p.running != "" && (strings.Contains(line, "(row)") || strings.Contains(line, "(column)")):
		p.open = &Test{Description: line}
	}
	return nil
}

func (p *textParser) row(line string, words []string) error {
	if p.columns == 0 {
		for i, word := range words {
			if word != strconv.Itoa(i) {
				return fmt.Errorf("%w: %s, want the numbers of a matrix's columns", tools.ErrFormat, tools.Quote(line))
			}
		}
		p.columns = len(words)
		return nil
	}
	if words[0] != strconv.Itoa(len(p.open.Cells)) || len(words) != p.columns+1 {
		return fmt.Errorf("%w: %s, want row %d of a matrix and its %d cells", tools.ErrFormat, tools.Quote(line), len(p.open.Cells), p.columns)
	}
	row := make([]*float64, p.columns)
	for i, word := range words[1:] {
		cell, err := readCell(word)
		if err != nil {
			return err
		}
		row[i] = cell
	}
	p.open.Cells = append(p.open.Cells, row)
	return nil
}

// sum ends a matrix. A test of both directions has several, whose names begin with its own.
func (p *textParser) sum(words []string) error {
	if p.open == nil || len(p.open.Cells) == 0 {
		return fmt.Errorf("%w: a SUM without its matrix adds all GPUs that nvbandwidth sees, want the matrix", tools.ErrMissing)
	}
	if len(words) != 3 || !strings.HasPrefix(words[1], p.running) {
		return fmt.Errorf("%w: %s, want the SUM of %s", tools.ErrFormat, tools.Quote(strings.Join(words, " ")), tools.Quote(p.running))
	}
	sum, err := tools.Number("SUM", words[2])
	if err != nil {
		return err
	}
	p.open.Name = words[1]
	if err := p.open.check(sum); err != nil {
		return err
	}
	p.result.Tests = append(p.result.Tests, *p.open)
	p.open, p.columns, p.running = nil, 0, ""
	return nil
}

func readCell(text string) (*float64, error) {
	if text == "N/A" {
		return nil, nil
	}
	value, err := tools.Number("a cell", text)
	if err != nil {
		return nil, err
	}
	return &value, nil
}
