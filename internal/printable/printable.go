// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package printable makes text from outside, such as names of interfaces and pods, safe
// to show on one line of a terminal, of a report or of XML.
package printable

import (
	"strings"
	"unicode"
)

// Text has U+FFFD for each character that a terminal may act on, or that may be taken
// for the end of a line, and for bytes that are no UTF-8.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}
