// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"strings"
	"unicode/utf8"

	"plumbline.dev/plumbline/internal/printable"
)

// font is how a piece of text is set.
type font struct {
	class string // of the style sheet
	size  float64
	mono  bool
	bold  bool
}

// The fonts of the style sheet, see style.go.
var (
	fontTitle   = font{class: "pl-t0", size: 34, bold: true}
	fontHead    = font{class: "pl-t1", size: 15}
	fontSocket  = font{class: "pl-t2", size: 14, bold: true}
	fontNode    = font{class: "pl-t3", size: 16, bold: true}
	fontBody    = font{class: "pl-t4", size: 12}
	fontCard    = font{class: "pl-t5", size: 13, bold: true}
	fontSmall   = font{class: "pl-t6", size: 11}
	fontMono    = font{class: "pl-m1", size: 12, mono: true, bold: true}
	fontMicro   = font{class: "pl-m2", size: 10, mono: true}
	fontBadge   = font{class: "pl-b", size: 10, bold: true}
	fontCaption = font{class: "pl-c", size: 10}
)

// advances are the widths of the printable ASCII characters in hundredths of
// an em, rounded up: of DejaVu Sans or Liberation Sans (as wide as Arial and
// Helvetica), whichever is wider. DejaVu is the widest font a viewer is likely
// to fall back to.
var advances = [...]uint8{
	32, 41, 46, 84, 64, 96, 78, 28, 40, 40, 50, 84, 32, 37, 32, 34, //  !"#$%&'()*+,-./
	64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 56, // 0123456789:;<=>?
	102, 69, 69, 73, 78, 67, 62, 78, 76, 30, 50, 67, 56, 87, 75, 79, // @ABCDEFGHIJKLMNO
	67, 79, 73, 67, 62, 74, 69, 99, 69, 67, 69, 40, 34, 40, 84, 56, // PQRSTUVWXYZ[\]^_
	50, 62, 64, 55, 64, 62, 36, 64, 64, 28, 28, 58, 28, 98, 64, 62, // `abcdefghijklmno
	64, 64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84, // pqrstuvwxyz{|}~
}

// boldAdvances are those of the bold fonts.
var boldAdvances = [...]uint8{
	35, 46, 53, 84, 70, 101, 88, 31, 46, 46, 53, 84, 38, 42, 38, 37, //  !"#$%&'()*+,-./
	70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 40, 40, 84, 84, 84, 62, // 0123456789:;<=>?
	100, 78, 77, 74, 84, 69, 69, 83, 84, 38, 56, 78, 64, 100, 84, 86, // @ABCDEFGHIJKLMNO
	74, 86, 78, 73, 69, 82, 78, 111, 78, 73, 73, 46, 37, 46, 84, 56, // PQRSTUVWXYZ[\]^_
	50, 68, 72, 60, 72, 68, 44, 72, 72, 35, 35, 67, 35, 105, 72, 69, // `abcdefghijklmno
	72, 72, 50, 60, 48, 72, 66, 93, 65, 66, 59, 72, 37, 72, 84, // pqrstuvwxyz{|}~
}

const (
	monoAdvance  = 0.61 // em
	otherAdvance = 1.2  // other letters, dots and dashes
	wideAdvance  = 1.4  // East Asian letters and emoji
	firstWide    = 0x1100
)

// advance is the width of a character in em, at most.
func (f font) advance(r rune) float64 {
	switch {
	case f.mono && r < firstWide:
		return monoAdvance
	case r >= ' ' && r <= '~' && f.bold:
		return float64(boldAdvances[r-' ']) / 100
	case r >= ' ' && r <= '~':
		return float64(advances[r-' ']) / 100
	case r == '·':
		return 0.4
	case r < firstWide:
		return otherAdvance
	}
	return wideAdvance
}

// width is how wide a text is at most, in pixels.
func (f font) width(s string) float64 {
	var em float64
	for _, r := range s {
		em += f.advance(r)
	}
	return em * f.size
}

// fit is s, cut with an ellipsis where it would be wider than limit pixels.
func (f font) fit(s string, limit float64) string {
	s = printable.Text(s)
	room := limit/f.size - f.advance('…')
	cut := 0 // bytes that fit together with an ellipsis
	var em float64
	for i, r := range s {
		em += f.advance(r)
		if em <= room {
			cut = i + utf8.RuneLen(r)
		}
		if em*f.size > limit {
			if cut == 0 {
				return ""
			}
			return strings.TrimRight(s[:cut], " ·,") + "…"
		}
	}
	return s
}

// wrap breaks s at spaces into lines of at most max pixels.
func (f font) wrap(s string, limit float64) []string {
	var lines []string
	current := ""
	for _, word := range strings.Fields(printable.Text(s)) {
		longer := word
		if current != "" {
			longer = current + " " + word
		}
		if current != "" && f.width(longer) > limit {
			lines = append(lines, current)
			longer = word
		}
		current = f.fit(longer, limit)
	}
	if current != "" {
		lines = append(lines, current)
	}
	return lines
}
