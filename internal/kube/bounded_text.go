// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// BoundedText is a text for an event or a status, cut to at most so many bytes. A
// pod chooses the names of its interfaces, of which the kernel takes nearly any
// bytes: what would move a terminal's cursor, and what is no UTF-8, is replaced.
func BoundedText(most int, text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
