// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package perftest

import (
	"fmt"
	"io"
	"strings"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// ParseJSON reads the file of --out_json. It says no units: gbits says whether perftest ran
// with --report_gbits. With -a it was written anew for each size and holds the last.
//
// Debian 12's is no JSON: its keys and words have no quotes, and its commas are one too many.
// Debian 13's is, as long as no figure is nan. Both are read the same way, tolerantly.
func ParseJSON(r io.Reader, gbits bool) (*Result, error) {
	text, err := tools.Read(r)
	if err != nil {
		return nil, fmt.Errorf("perftest --out_json: %w", err)
	}
	results, err := looseObject(string(text), "results")
	if err != nil {
		return nil, fmt.Errorf("perftest --out_json: %w", err)
	}
	row, err := jsonRow(results, gbits)
	if err != nil {
		return nil, fmt.Errorf("perftest --out_json: %w", err)
	}
	return &Result{Rows: []Row{row}}, nil
}

func jsonRow(results []member, gbits bool) (Row, error) {
	var row Row
	for _, m := range results {
		var err error
		switch m.key {
		case "MsgSize":
			row.Bytes, err = count(m.key, m.value)
		case "n_iterations":
			row.Iterations, err = count(m.key, m.value)
		default:
			err = row.add(m.key, jsonUnit(m.key, gbits), m.value)
		}
		if err != nil {
			return Row{}, err
		}
	}
	if row.Bytes == 0 || row.Iterations == 0 {
		return Row{}, fmt.Errorf("%w: results has no MsgSize and n_iterations", tools.ErrMissing)
	}
	return row, row.check()
}

func jsonUnit(key string, gbits bool) string {
	switch {
	case key == "MsgRate":
		return "Mpps"
	case !strings.HasPrefix(key, "BW"):
		return "usec"
	case gbits:
		return "Gb/sec"
	}
	return "MiB/sec"
}

// member is one key of an object and its value, both without quotes.
type member struct{ key, value string }

// looseObject is the object of this key in a document of two levels, in which quotes, the
// outer braces and commas may be missing.
func looseObject(text, key string) ([]member, error) {
	l := lexer{rest: text}
	if l.peek() == "{" {
		l.next()
	}
	var found []member
	seen := false
	for {
		name := l.next()
		switch {
		case name == ",":
			continue
		case name == "" || name == "}":
			if !seen {
				return nil, fmt.Errorf("%w: no %s that is whole", tools.ErrCut, key)
			}
			if rest := strings.TrimSpace(l.rest); rest != "" {
				return nil, fmt.Errorf("%w: %s follows the object", tools.ErrFormat, tools.Quote(rest))
			}
			return found, nil
		case unquoted(name) == key && seen:
			return nil, fmt.Errorf("%w: a second %s, want the file of one run", tools.ErrFormat, key)
		}
		if l.next() != ":" || l.next() != "{" {
			return nil, fmt.Errorf("%w: %s, want the key of an object", tools.ErrFormat, tools.Quote(name))
		}
		members, err := l.members()
		if err != nil {
			return nil, err
		}
		if unquoted(name) == key {
			found, seen = members, true
		}
	}
}

// lexer takes words from the front of a text: a sign of punctuation, a string with its
// quotes, or what stands until the next sign or the end of the line.
type lexer struct{ rest string }

const signs = "{}:,"

func (l *lexer) peek() string {
	ahead := *l
	return ahead.next()
}

// next is "" at the end of the text.
func (l *lexer) next() string {
	l.rest = strings.TrimLeft(l.rest, " \t\r\n")
	if l.rest == "" {
		return ""
	}
	end := strings.IndexAny(l.rest, signs+"\"\r\n")
	switch {
	case strings.ContainsRune(signs, rune(l.rest[0])):
		end = 1
	case l.rest[0] == '"':
		end = len(l.rest)
		if closing := strings.IndexAny(l.rest[1:], "\"\n"); closing >= 0 {
			end = closing + 2
		}
	case end < 0:
		end = len(l.rest)
	}
	word := l.rest[:end]
	l.rest = l.rest[end:]
	return strings.TrimSpace(word)
}

// members are those of an object whose brace was read.
func (l *lexer) members() ([]member, error) {
	var found []member
	given := map[string]bool{}
	for {
		key := l.next()
		switch key {
		case ",":
			continue
		case "}":
			return found, nil
		case "":
			return nil, fmt.Errorf("%w: an object has no end", tools.ErrCut)
		}
		colon, value := l.next(), l.next()
		if colon == "" || value == "" {
			return nil, fmt.Errorf("%w: %s has no value", tools.ErrCut, tools.Quote(key))
		}
		if colon != ":" || strings.Contains(signs, value) || strings.Contains(signs, key) {
			return nil, fmt.Errorf("%w: %s, want a key and its value", tools.ErrFormat, tools.Quote(key))
		}
		if key = unquoted(key); given[key] {
			return nil, fmt.Errorf("%w: %s is there twice", tools.ErrFormat, tools.Quote(key))
		}
		given[key] = true
		found = append(found, member{key: key, value: unquoted(value)})
	}
}

func unquoted(word string) string {
	if len(word) > 1 && word[0] == '"' && word[len(word)-1] == '"' {
		return word[1 : len(word)-1]
	}
	return word
}
