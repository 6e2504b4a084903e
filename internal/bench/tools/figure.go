// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"fmt"
	"math"
	"strconv"
)

// Figure is one number that a tool measured.
type Figure struct {
	// Name is the tool's own, such as t_typical.
	Name string
	// Unit is of the value, such as us or Gbit/s.
	Unit           string
	Value          float64
	HigherIsBetter bool
}

// Check refuses a figure that no measurement gives: NaN, an infinity, zero and less.
func (f Figure) Check() error {
	if math.IsNaN(f.Value) || math.IsInf(f.Value, 0) || f.Value <= 0 {
		return fmt.Errorf("%s is %v %s: %w, want a number above 0", Quote(f.Name), f.Value, f.Unit, ErrValue)
	}
	return nil
}

// Number reads a decimal number of a table. What it reads may be zero or no number at all:
// Figure.Check says what can be a measurement.
func Number(name, text string) (float64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %s: %w, want a number", Quote(name), Quote(text), ErrFormat)
	}
	return value, nil
}

// Agree says whether two numbers that should be the same differ by no more than a part
// of the larger one.
func Agree(a, b, part float64) bool {
	return math.Abs(a-b) <= part*max(math.Abs(a), math.Abs(b))
}
