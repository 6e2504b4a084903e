// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package suggest finds the name that was meant where one was misspelt: "did you mean".
package suggest

import "strings"

// Closest returns the candidate that a name was most probably meant to be: one that
// differs in case only, or by an edit for each three letters, at most three; ""
// without any. Of equally near ones it is the first.
func Closest(name string, candidates []string) string {
	best, least := "", min(3, len(name)/3)+1
	for _, c := range candidates {
		d := distance(strings.ToLower(name), strings.ToLower(c))
		if d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is Levenshtein's: insertions, deletions and replacements of bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
