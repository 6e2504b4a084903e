// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mfu

import (
	"fmt"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// fields reads key=value, one blank between each. A value is a word, or a string as Python's
// repr writes it, which may hold blanks, quotes and signs of equality.
func fields(text string) (map[string]string, error) {
	values := map[string]string{}
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimLeft(text, " ") {
		key, rest, found := strings.Cut(text, "=")
		if !found {
			return nil, fmt.Errorf("%w: %s has no value", tools.ErrCut, tools.Quote(text))
		}
		if key == "" || strings.ContainsAny(key, " '\"") {
			return nil, fmt.Errorf("%w: %s, want key=value", tools.ErrFormat, tools.Quote(text))
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("%w: %s is there twice", tools.ErrFormat, tools.Quote(key))
		}
		if rest == "" || rest[0] != '\'' && rest[0] != '"' {
			values[key], text, _ = strings.Cut(rest, " ")
			continue
		}
		value, after, err := unquote(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tools.Quote(key), err)
		}
		if after != "" && after[0] != ' ' {
			return nil, fmt.Errorf("%s: %w: %s follows its string", tools.Quote(key), tools.ErrFormat, tools.Quote(after))
		}
		values[key], text = value, after
	}
	return values, nil
}

// escapes are what repr writes for characters that a line cannot hold, \x, \u and \U aside.
var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': `\`, '\'': "'", '"': `"`}

// digits are how many hexadecimal ones follow.
var digits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// unquote reads the string that text begins with, and what is left.
func unquote(text string) (value, rest string, err error) {
	quote := text[0]
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return b.String(), text[i+1:], nil
		case text[i] != '\\':
			b.WriteByte(text[i])
		case i+1 == len(text):
			return "", "", noEnd(text)
		default:
			i++
			length, code := digits[text[i]]
			plain, known := escapes[text[i]]
			switch {
			case known:
				b.WriteString(plain)
			case code && i+length < len(text):
				number, err := strconv.ParseUint(text[i+1:i+1+length], 16, 32)
				if err != nil {
					return "", "", fmt.Errorf("%w: no such escape in %s", tools.ErrFormat, tools.Quote(text))
				}
				b.WriteRune(rune(number))
				i += length
			default:
				return "", "", fmt.Errorf("%w: no such escape in %s", tools.ErrFormat, tools.Quote(text))
			}
		}
	}
	return "", "", noEnd(text)
}

func noEnd(text string) error {
	return fmt.Errorf("%w: the string %s has no end", tools.ErrCut, tools.Quote(text))
}
