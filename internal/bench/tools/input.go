// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxOutput and MaxLine bound what is read: the longest run of any of these tools writes
// some 100 KB, in lines of some 200 bytes. A container may write anything.
const (
	MaxOutput = 1 << 20
	MaxLine   = 16 << 10
)

// Read is all of a tool's output.
func Read(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxOutput+1))
	if err != nil {
		return nil, fmt.Errorf("read the output: %w", err)
	}
	if len(text) > MaxOutput {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxOutput)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrCut)
	}
	return text, nil
}

// Lines is a tool's output by lines, without their ends. Terminals end them with \r\n.
func Lines(r io.Reader) ([]string, error) {
	text, err := Read(r)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if len(line) > MaxLine {
			return nil, fmt.Errorf("%w: line %d has more than %d bytes", ErrTooLarge, len(lines)+1, MaxLine)
		}
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines, nil
}

// WholeLines is Lines for a tool whose last line says nothing of being the last: one that
// has no end may be the half of a number.
func WholeLines(r io.Reader) ([]string, error) {
	text, err := Read(r)
	if err != nil {
		return nil, err
	}
	if text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("%w: its last line has no end", ErrCut)
	}
	return Lines(bytes.NewReader(text))
}

// JSON decodes the one document that a tool wrote. Its errors show nothing of the
// document, which may hold what nobody should read, such as an environment.
func JSON(r io.Reader, into any) error {
	text, err := Read(r)
	if err != nil {
		return err
	}
	if start := bytes.TrimSpace(text)[0]; start != '{' {
		return fmt.Errorf("%w: it is no JSON object", ErrFormat)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(into); err != nil {
		return jsonError(err)
	}
	if rest := bytes.TrimSpace(text[decoder.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%w: something follows the JSON object, which ends at byte %d", ErrFormat, decoder.InputOffset())
	}
	return nil
}

func jsonError(err error) error {
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the JSON object has no end", ErrCut)
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: no JSON at byte %d", ErrFormat, syntax.Offset)
	case errors.As(err, &typed):
		return fmt.Errorf("%w: %s is of another type at byte %d", ErrFormat, Quote(typed.Field), typed.Offset)
	case errors.Is(err, ErrFormat):
		return err
	}
	return fmt.Errorf("%w: no JSON that can be read", ErrFormat)
}
