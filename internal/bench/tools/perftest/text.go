// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package perftest

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// errorLine is perftest saying why it has no table.
var errorLine = regexp.MustCompile(`(?i)^\s*(?:couldn't |unable to |failed |can't |problems with |error|invalid )|not found|completion with error`)

// fatal lines are of a run that went wrong, whatever stands in its table.
var fatal = regexp.MustCompile(`(?i)^\s*(?:completion with error|failed status )`)

// betweenRows is what perftest writes to its standard error while it computes a row: it
// compares clocks there. Whole lines alone are let by: what such a line shares with a row may
// hide the row.
var betweenRows = regexp.MustCompile(`^(?:Correlation coefficient r\^2: [0-9.]+ < [0-9.]+|` +
	`Conflicting CPU frequency values detected: [0-9.]+ != [0-9.]+\. CPU Frequency is not max\.|` +
	`Warning: measured timestamp frequency [0-9.]+ differs from nominal [0-9.]+ MHz|Test integrity may be harmed ?!)$`)

// ParseText reads the table:
//
//	 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]  ...
//	 2       1000          1.45           3.88         1.47               1.51         ...
//	---------------------------------------------------------------------------------------
//
// What is above its header, which is how both sides met, is passed over. The dashes below it
// are perftest's last line: without them it was stopped.
func ParseText(r io.Reader) (*Result, error) {
	lines, err := tools.Lines(r)
	if err != nil {
		return nil, fmt.Errorf("perftest: %w", err)
	}
	p := textParser{sizes: map[int64]bool{}}
	for i, line := range lines {
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("perftest: line %d: %w", i+1, err)
		}
	}
	switch {
	case p.whole:
		return &p.result, nil
	case p.said != "":
		return nil, fmt.Errorf("perftest: %w: %s", tools.ErrFailed, tools.Quote(p.said))
	case p.header == nil:
		return nil, fmt.Errorf("perftest: %w: no table, whose header begins with #bytes", tools.ErrCut)
	}
	return nil, fmt.Errorf("perftest: %w: no line of dashes ends the table", tools.ErrCut)
}

// mtuLine is that of RDMA's own maximum: " Mtu             : 1024[B]".
var mtuLine = regexp.MustCompile(`^\s*Mtu\s*:\s*(\d+)\[B\]\s*$`)

// MTU is how many bytes of a message go in one packet, as stands above the table.
func MTU(r io.Reader) (int64, error) {
	lines, err := tools.Lines(r)
	if err != nil {
		return 0, fmt.Errorf("perftest: %w", err)
	}
	for _, line := range lines {
		if found := mtuLine.FindStringSubmatch(line); found != nil {
			return count("Mtu", found[1])
		}
	}
	return 0, fmt.Errorf("perftest: Mtu: %w above the table", tools.ErrMissing)
}

type textParser struct {
	result Result
	header []heading
	sizes  map[int64]bool
	// whole says that the dashes below the rows were there.
	whole bool
	// said is the last line that looks like an error.
	said string
}

type heading struct{ name, unit string }

func (p *textParser) line(line string) error {
	if fatal.MatchString(line) {
		return fmt.Errorf("%w: %s", tools.ErrFailed, tools.Quote(line))
	}
	if errorLine.MatchString(line) {
		p.said = line
	}
	switch {
	case line == "", betweenRows.MatchString(line):
		return nil
	case strings.HasPrefix(line, "#bytes"):
		if p.header != nil {
			return fmt.Errorf("%w: a second table, want the output of one run", tools.ErrFormat)
		}
		p.header = headings(line)
		return nil
	case p.header == nil, p.whole, p.said == line:
		return nil
	case strings.Trim(line, "-") == "":
		if len(p.result.Rows) == 0 {
			return fmt.Errorf("%w: the table has no rows", tools.ErrCut)
		}
		p.whole = true
		return nil
	}
	return p.row(line)
}

// headings are a header's columns. Names hold blanks ("BW peak[Gb/sec]", "99% percentile
// [usec]"), so one ends where its brackets do; those of whole numbers begin with # and have
// none.
func headings(line string) []heading {
	var found []heading
	name := ""
	for _, word := range strings.Fields(line) {
		if name != "" {
			word = name + " " + word
		}
		before, unit, ends := strings.Cut(word, "[")
		switch {
		case ends:
			found, name = append(found, heading{name: strings.TrimSpace(before), unit: strings.TrimSuffix(unit, "]")}), ""
		case strings.HasPrefix(word, "#"):
			found = append(found, heading{name: word})
		default:
			name = word
		}
	}
	if name != "" {
		found = append(found, heading{name: name})
	}
	return found
}

func (p *textParser) row(line string) error {
	words := strings.Fields(line)
	if len(words) != len(p.header) {
		return fmt.Errorf("%w: %s has %d words, want a row of %d", tools.ErrFormat, tools.Quote(line), len(words), len(p.header))
	}
	var row Row
	for i, h := range p.header {
		var err error
		switch h.name {
		case "#bytes":
			row.Bytes, err = count(h.name, words[i])
		case "#iterations":
			row.Iterations, err = count(h.name, words[i])
		default:
			err = row.add(h.name, h.unit, words[i])
		}
		if err != nil {
			return err
		}
	}
	if p.sizes[row.Bytes] {
		return fmt.Errorf("%w: %d bytes are there twice, want the output of one run", tools.ErrFormat, row.Bytes)
	}
	p.sizes[row.Bytes] = true
	p.result.Rows = append(p.result.Rows, row)
	return row.check()
}

func count(name, text string) (int64, error) {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 1 {
		return 0, fmt.Errorf("%s is %s: %w, want a whole number above 0", name, tools.Quote(text), tools.ErrFormat)
	}
	return value, nil
}
