// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvbandwidth

import (
	"fmt"
	"math"
	"strings"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// Result is one run of the program.
type Result struct {
	// Version is the program's, such as v0.8.
	Version string
	Tests   []Test
	// Waived is how many tests it left out because this machine cannot do them. As text it
	// does not say which.
	Waived int
}

// Test is one matrix.
type Test struct {
	Name string
	// Description says what rows and columns are, and the unit.
	Description string
	// Cells has nil where nvbandwidth has N/A.
	Cells [][]*float64
}

// Figure is the one cell of a test. It refuses more: which of several GPUs is meant nobody
// but the caller knows, and their sum is no figure.
func (r *Result) Figure(test string) (tools.Figure, error) {
	t, err := r.test(test)
	if err != nil {
		return tools.Figure{}, err
	}
	if len(t.Cells) != 1 || len(t.Cells[0]) != 1 {
		return tools.Figure{}, fmt.Errorf("%s: %w that is the only one: the matrix has %d rows of %d cells, want a pod that sees one GPU, or name a cell",
			tools.Quote(test), tools.ErrMissing, len(t.Cells), len(t.Cells[0]))
	}
	return r.Cell(test, 0, 0)
}

// Cell is one cell of a test; rows and columns count from 0, as nvbandwidth's do.
func (r *Result) Cell(test string, row, column int) (tools.Figure, error) {
	t, err := r.test(test)
	if err != nil {
		return tools.Figure{}, err
	}
	if row < 0 || row >= len(t.Cells) || column < 0 || column >= len(t.Cells[row]) {
		return tools.Figure{}, fmt.Errorf("%s: %w: no cell %d, %d, the matrix has %d rows of %d", tools.Quote(test), tools.ErrMissing, row, column, len(t.Cells), len(t.Cells[0]))
	}
	if t.Cells[row][column] == nil {
		return tools.Figure{}, fmt.Errorf("%s: %w: cell %d, %d is N/A", tools.Quote(test), tools.ErrMissing, row, column)
	}
	figure := tools.Figure{Name: test, Value: *t.Cells[row][column]}
	switch {
	case strings.HasSuffix(t.Description, "(ns)"):
		figure.Unit = "ns"
	case strings.HasSuffix(t.Description, "(GB/s)"):
		figure.Unit, figure.HigherIsBetter = "GB/s", true
	default:
		return tools.Figure{}, fmt.Errorf("%s: %w: %s names no unit, want (ns) or (GB/s)", tools.Quote(test), tools.ErrFormat, tools.Quote(t.Description))
	}
	if err := figure.Check(); err != nil {
		return tools.Figure{}, err
	}
	return figure, nil
}

func (r *Result) test(name string) (*Test, error) {
	for i := range r.Tests {
		if r.Tests[i].Name == name {
			return &r.Tests[i], nil
		}
	}
	if r.Waived > 0 {
		return nil, fmt.Errorf("%s: %w: nvbandwidth waived %d of its tests, which this GPU or driver cannot do", tools.Quote(name), tools.ErrMissing, r.Waived)
	}
	return nil, fmt.Errorf("%s: %w: nvbandwidth did not run it", tools.Quote(name), tools.ErrMissing)
}

// check holds the sum against the cells: a row that another process wrote over, or that a
// log lost, is in the one and not in the other. Both were rounded, to two decimals or to six
// digits.
func (t *Test) check(sum float64) error {
	if len(t.Cells) == 0 || len(t.Cells[0]) == 0 {
		return fmt.Errorf("%s: %w: its matrix is empty", tools.Quote(t.Name), tools.ErrFormat)
	}
	added, cells := 0.0, 0
	for _, row := range t.Cells {
		if len(row) != len(t.Cells[0]) {
			return fmt.Errorf("%s: %w: a row has %d cells and the first one %d", tools.Quote(t.Name), tools.ErrFormat, len(row), len(t.Cells[0]))
		}
		for _, cell := range row {
			if cell != nil {
				added += *cell
				cells++
			}
		}
	}
	if slack := 0.005*float64(cells+1) + 1e-5*math.Abs(sum); !(math.Abs(added-sum) <= slack) {
		return fmt.Errorf("%s: %w: the cells add up to %.2f and nvbandwidth has %.2f", tools.Quote(t.Name), tools.ErrValue, added, sum)
	}
	return nil
}

// failure says whether a line is nvbandwidth's report of an error, and what helps.
func failure(line string) error {
	lower := strings.ToLower(line)
	switch {
	case strings.Contains(line, "setOptimalCpuAffinity"):
		return fmt.Errorf("%w: %s: NVML may not set the CPUs of a process whose CPUs a claim gave it, want nvbandwidth -d (--disableAffinity)", tools.ErrFailed, tools.Quote(line))
	case strings.HasPrefix(lower, "error"), strings.HasPrefix(line, "NVML_ERROR"), strings.HasPrefix(line, "ASSERT in"),
		strings.HasPrefix(line, "[") && strings.Contains(line, " in expression "),
		strings.Contains(lower, "nvbandwidth: not found"), strings.Contains(lower, "nvbandwidth: command not found"):
		return fmt.Errorf("%w: %s", tools.ErrFailed, tools.Quote(line))
	}
	return nil
}
