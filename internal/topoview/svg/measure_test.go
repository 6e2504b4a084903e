// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"strings"
	"testing"
	"unicode/utf8"

	"plumbline.dev/plumbline/internal/printable"
)

func TestFit(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit float64
		want  string
	}{
		{"gpu-0", 100, "gpu-0"},
		{"a-name-that-is-too-long", 60, "a-name…"},
		{"cut · here", 50, "cut…"},
		{"x", 1, ""},
		{"", 100, ""},
		{"two\nlines", 200, "two\ufffdlines"},
	} {
		if got := fontSmall.fit(tc.text, tc.limit); got != tc.want {
			t.Errorf("fit(%q, %g) = %q, want %q", tc.text, tc.limit, got, tc.want)
		}
	}
}

// A text that was cut to a width has it, and begins like the whole.
func FuzzFit(f *testing.F) {
	f.Add("plain", 40.0)
	f.Add("\xff\x00\u202e🧵日本", 30.0)
	f.Add(strings.Repeat("W", 100), 80.0)
	f.Fuzz(func(t *testing.T, s string, limit float64) {
		if limit < 0 || limit > 1e6 {
			t.Skip("no width of a box")
		}
		for _, font := range []font{fontSmall, fontMicro, fontCard} {
			got := font.fit(s, limit)
			if w := font.width(got); w > limit+1e-6 {
				t.Errorf("fit(%q, %g) = %q is %g wide", s, limit, got, w)
			}
			if !strings.HasPrefix(printable.Text(s), strings.TrimSuffix(got, "…")) || !utf8.ValidString(got) {
				t.Errorf("fit(%q, %g) = %q is another text", s, limit, got)
			}
			for _, line := range font.wrap(s, limit) {
				if w := font.width(line); w > limit+1e-6 {
					t.Errorf("wrap(%q, %g) has line %q of %g", s, limit, line, w)
				}
			}
		}
	})
}
