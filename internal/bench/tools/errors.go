// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"errors"
	"strconv"

	"plumbline.dev/plumbline/internal/printable"
)

// How a reader fails.
var (
	// ErrCut is of output that ends before its end.
	ErrCut = errors.New("the output is cut")
	// ErrFailed is of a tool that says that it failed.
	ErrFailed = errors.New("the tool failed")
	// ErrMissing is of output that is whole, without the figure that was asked for.
	ErrMissing = errors.New("no such figure")
	// ErrValue is of a number that no measurement gives, or that contradicts others.
	ErrValue = errors.New("no measurement")
	// ErrFormat is of output that is not of this tool, or not of a form that is known.
	ErrFormat = errors.New("unknown form")
	// ErrTooLarge is of more output than any run of a tool writes.
	ErrTooLarge = errors.New("too much output")
)

// quoted is how many bytes of a tool's text an error shows.
const quoted = 160

// Quote is a tool's text as an error may show it: printable, on one line, not long.
func Quote(s string) string {
	end := ""
	if len(s) > quoted {
		s, end = s[:quoted], "..."
	}
	return strconv.Quote(printable.Text(s)) + end
}
