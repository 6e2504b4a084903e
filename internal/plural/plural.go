// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package plural writes numbers of things: "1 root", "3 roots".
package plural

import "strconv"

// Count is n with the noun that belongs to it, such as "1 root" or "0 roots".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
