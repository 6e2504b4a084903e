// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvbandwidth

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"plumbline.dev/plumbline/internal/bench/tools"
)

type document struct {
	Run *struct {
		Version string     `json:"version"`
		Error   string     `json:"error"`
		Tests   []testcase `json:"testcases"`
	} `json:"nvbandwidth"`
}

type testcase struct {
	Name        string   `json:"name"`
	Status      string   `json:"status"`
	Error       string   `json:"error"`
	Description string   `json:"bandwidth_description"`
	Matrix      [][]cell `json:"bandwidth_matrix"`
	Sum         *float64 `json:"sum"`
}

// cell is written as a string: a number, or N/A.
type cell struct{ value *float64 }

// UnmarshalJSON takes numbers too, which a version may well come to write.
func (c *cell) UnmarshalJSON(text []byte) error {
	var word string
	if json.Unmarshal(text, &word) != nil {
		word = string(text)
	}
	value, err := readCell(word)
	c.value = value
	return err
}

// ParseJSON reads what nvbandwidth -j prints.
func ParseJSON(r io.Reader) (*Result, error) {
	var d document
	if err := tools.JSON(r, &d); err != nil {
		return nil, fmt.Errorf("nvbandwidth -j: %w", err)
	}
	if d.Run == nil {
		return nil, fmt.Errorf("nvbandwidth -j: %w: the object has no nvbandwidth", tools.ErrFormat)
	}
	if d.Run.Error != "" {
		if err := failure(d.Run.Error); err != nil {
			return nil, fmt.Errorf("nvbandwidth -j: %w", err)
		}
		return nil, fmt.Errorf("nvbandwidth -j: %w: %s", tools.ErrFailed, tools.Quote(d.Run.Error))
	}
	if len(d.Run.Tests) == 0 {
		return nil, fmt.Errorf("nvbandwidth -j: %w: no test ran", tools.ErrCut)
	}
	result := &Result{Version: d.Run.Version}
	for _, c := range lastOfEach(d.Run.Tests) {
		if err := result.add(c); err != nil {
			return nil, fmt.Errorf("nvbandwidth -j: %s: %w", tools.Quote(c.Name), err)
		}
	}
	return result, nil
}

// lastOfEach leaves out what nvbandwidth wrote of a test before its last word: it looks for
// the test that runs by a key that is not there, and so adds one that failed a second time.
func lastOfEach(tests []testcase) []testcase {
	last := map[string]int{}
	for i, c := range tests {
		last[c.Name] = i
	}
	var kept []testcase
	for _, i := range slices.Sorted(maps.Values(last)) {
		kept = append(kept, tests[i])
	}
	return kept
}

func (r *Result) add(c testcase) error {
	switch c.Status {
	case "Passed":
	case "Waived":
		r.Waived++
		return nil
	case "Running":
		return fmt.Errorf("%w: it never ended", tools.ErrCut)
	default:
		return fmt.Errorf("%w: status %s, %s", tools.ErrFailed, tools.Quote(c.Status), tools.Quote(c.Error))
	}
	if c.Sum == nil {
		return fmt.Errorf("%w: it has no sum", tools.ErrCut)
	}
	if len(c.Matrix) == 0 {
		return fmt.Errorf("%w: a sum without its matrix adds all GPUs that nvbandwidth sees, want the matrix", tools.ErrMissing)
	}
	test := Test{Name: c.Name, Description: c.Description}
	for _, cells := range c.Matrix {
		row := make([]*float64, len(cells))
		for i := range cells {
			row[i] = cells[i].value
		}
		test.Cells = append(test.Cells, row)
	}
	if err := test.check(*c.Sum); err != nil {
		return err
	}
	r.Tests = append(r.Tests, test)
	return nil
}
