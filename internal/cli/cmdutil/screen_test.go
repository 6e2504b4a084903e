// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"bytes"
	"testing"
)

// What a terminal is given, picture by picture.
func TestScreen(t *testing.T) {
	for name, test := range map[string]struct {
		rows     func() int
		pictures []string
		want     string
	}{
		"no terminal": {nil, []string{"a\nb\n", "a\nb\n", "c\n"}, "a\nb\n--\nc\n"},
		"over each other": {
			func() int { return 24 }, []string{"a\nb\n", "a\nb\n", "c\n"},
			enter + home + "a" + endLine + "b" + endLine + endPicture + home + "c" + endLine + endPicture + leave + "c\n",
		},
		"longer than the terminal": {
			func() int { return 4 }, []string{"a\nb\nc\nd\n"},
			enter + home + "a" + endLine + "b" + endLine + "… 2 more lines" + endLine + endPicture + leave + "a\nb\nc\nd\n",
		},
		"just fits":            {func() int { return 3 }, []string{"a\nb\n"}, enter + home + "a" + endLine + "b" + endLine + endPicture + leave + "a\nb\n"},
		"a size nobody tells":  {func() int { return 0 }, []string{"a\nb\n"}, enter + home + "a" + endLine + "b" + endLine + endPicture + leave + "a\nb\n"},
		"nothing to show":      {func() int { return 24 }, nil, ""},
		"nothing, no terminal": {nil, nil, ""},
	} {
		var out bytes.Buffer
		s := &screen{out: &out, rows: test.rows}
		for _, p := range test.pictures {
			if err := s.show([]byte(p), "--\n"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != test.want {
			t.Errorf("%s:\n%q, want\n%q", name, out.String(), test.want)
		}
	}
}
