// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"plumbline.dev/plumbline/internal/printable"
)

// Measures of the picture, in pixels.
const (
	pictureWidth  = 720
	pictureHeight = 300
	plotLeft      = 170
	plotRight     = 690
	rowA, rowB    = 110, 190
	axisAt        = 240
	dot           = 5
)

// WriteSVG draws each turn's two runs, a line between them, and the medians: one picture that
// begins at zero, so that a small difference looks small.
func (r *Report) WriteSVG(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" font-family=\"sans-serif\" font-size=\"14\">\n", pictureWidth, pictureHeight)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", escaped(r.Sentence()))
	text := func(x, y int, anchor, s string) {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" fill=\"#1f2933\">%s</text>\n", x, y, anchor, escaped(s))
	}
	text(30, 36, "start", fmt.Sprintf("bench %s: %s in %s", r.Kind, r.Figure.Name, r.Figure.Unit))
	for i, line := range wrapped(r.Sentence(), 108) {
		fmt.Fprintf(&b, "<text x=\"30\" y=\"%d\" font-size=\"12\" fill=\"#52606d\">%s</text>\n", 56+16*i, escaped(line))
	}
	text(plotLeft-20, rowA+5, "end", r.A.Name)
	text(plotLeft-20, rowB+5, "end", r.B.Name)
	turns := r.Turns()
	highest := 0.0
	for _, turn := range turns {
		highest = max(highest, turn.A, turn.B)
	}
	if highest == 0 {
		highest = 1
	}
	x := func(value float64) float64 { return plotLeft + value/highest*(plotRight-plotLeft) }
	fmt.Fprintf(&b, "<path d=\"M%d %dH%d\" stroke=\"#9aa5b1\"/>\n", plotLeft, axisAt, plotRight)
	for _, tick := range []float64{0, highest / 2, highest} {
		fmt.Fprintf(&b, "<path d=\"M%.1f %dv6\" stroke=\"#9aa5b1\"/>\n", x(tick), axisAt)
		text(int(x(tick)), axisAt+24, "middle", fmt.Sprintf("%.3g", tick))
	}
	for _, turn := range turns {
		fmt.Fprintf(&b, "<path d=\"M%.1f %dL%.1f %d\" stroke=\"#cbd2d9\"/>\n", x(turn.A), rowA, x(turn.B), rowB)
		fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%d\" r=\"%d\" fill=\"#2186eb\" fill-opacity=\"0.6\"/>\n", x(turn.A), rowA, dot)
		fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%d\" r=\"%d\" fill=\"#de911d\" fill-opacity=\"0.6\"/>\n", x(turn.B), rowB, dot)
	}
	if len(turns) > 0 {
		for _, m := range []struct {
			value float64
			row   int
		}{{r.Verdict.MedianA, rowA}, {r.Verdict.MedianB, rowB}} {
			fmt.Fprintf(&b, "<path d=\"M%.1f %dv28\" stroke=\"#1f2933\" stroke-width=\"2\"/>\n", x(m.value), m.row-14)
			text(int(x(m.value)), m.row-18, "middle", fmt.Sprintf("%.2f", m.value))
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// wrapped is text in lines of so many letters.
func wrapped(s string, limit int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(s) {
		last := &lines[len(lines)-1]
		if *last != "" && len(*last)+1+len(word) > limit {
			lines = append(lines, word)
			continue
		}
		*last = strings.TrimSpace(*last + " " + word)
	}
	return lines
}

// escaped is text fit for XML, whatever bytes it is of.
func escaped(s string) string {
	var b strings.Builder
	// A strings.Builder does not fail.
	_ = xml.EscapeText(&b, []byte(printable.Text(s)))
	return b.String()
}
