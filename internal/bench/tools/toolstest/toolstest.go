// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package toolstest is what the tests of the readers of measuring tools' output have in
// common. What a tool writes, and what of it is refused, stays with the tool's own package.
package toolstest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// File is a file of the package's testdata.
func File(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Changes returns a function that exchanges something in a text, once. It must be there: a
// test of a change that changes nothing would be one of the text itself.
func Changes(t *testing.T, whole string) func(old, new string) string {
	return func(old, new string) string {
		t.Helper()
		if !strings.Contains(whole, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(whole, old, new, 1)
	}
}

// Gbits is a bandwidth.
func Gbits(name string, value float64) tools.Figure {
	return tools.Figure{Name: name, Unit: "Gbit/s", Value: value, HigherIsBetter: true}
}

// Refusals are outputs that a reader refuses.
type Refusals []struct {
	Name, Text string
	// Want is what the error is, and Says what it says.
	Want error
	Says string
}

// Refuses has a reader refuse each, and give nothing beside the error.
func Refuses[R any](t *testing.T, read func(io.Reader) (R, error), refusals Refusals) {
	t.Helper()
	for _, c := range refusals {
		got, err := read(strings.NewReader(c.Text))
		if !errors.Is(err, c.Want) || !strings.Contains(err.Error(), c.Says) || !reflect.ValueOf(&got).Elem().IsZero() {
			t.Errorf("%s: %+v, %v, want %v and %q", c.Name, got, err, c.Want, c.Says)
		}
	}
}
