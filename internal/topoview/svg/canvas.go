// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"encoding/xml"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/printable"
	"plumbline.dev/plumbline/internal/topoview"
)

// canvas collects the elements of the picture.
type canvas struct {
	strings.Builder
	// colour is the palette's index of each claim, by key.
	colour map[string]int
	claims map[string]topoview.Claim
}

// attributes are name and value in turns.
type attributes []string

// num prints a coordinate: tenths of a pixel, no more.
func num(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// escape makes text fit for XML, whatever bytes it is of.
func escape(s string) string {
	var b strings.Builder
	// A strings.Builder does not fail.
	_ = xml.EscapeText(&b, []byte(printable.Text(s)))
	return b.String()
}

func (c *canvas) open(name string, attrs attributes) {
	c.WriteString("<" + name)
	c.attrs(attrs)
	c.WriteString(">")
}

func (c *canvas) close(name string) { c.WriteString("</" + name + ">\n") }

func (c *canvas) attrs(attrs attributes) {
	for i := 0; i+1 < len(attrs); i += 2 {
		c.WriteString(" " + attrs[i] + `="` + escape(attrs[i+1]) + `"`)
	}
}

func (c *canvas) element(name string, attrs attributes) {
	c.WriteString("<" + name)
	c.attrs(attrs)
	c.WriteString("/>\n")
}

// rect draws a rectangle with rounded corners.
func (c *canvas) rect(x, y, w, h, r float64, class string) {
	c.element("rect", attributes{"class", class, "x", num(x), "y", num(y), "width", num(w), "height", num(h), "rx", num(r)})
}

// path draws a path.
func (c *canvas) path(class, d string) { c.element("path", attributes{"class", class, "d", d}) }

// line draws a horizontal or vertical line.
func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	from, to := num(x1)+" "+num(y1), num(x2)+" "+num(y2)
	if from != to {
		c.path(class, "M"+from+"L"+to)
	}
}

// Where a text's x is.
const (
	left   = "start"
	middle = "middle"
	right  = "end"
)

// text sets one line, cut to limit pixels; y is the baseline. Extra classes
// follow the font's.
func (c *canvas) text(x, y float64, f font, anchor, s string, limit float64, extra ...string) {
	shown := f.fit(s, limit)
	if shown == "" {
		return
	}
	attrs := attributes{"class", strings.Join(append([]string{f.class}, extra...), " "), "x", num(x), "y", num(y)}
	if anchor != left {
		attrs = append(attrs, "text-anchor", anchor)
	}
	c.open("text", attrs)
	c.WriteString(escape(shown))
	if shown != printable.Text(s) {
		c.title(s)
	}
	c.close("text")
}

// textAfter sets a second text close after the first, where there is room for
// both.
func (c *canvas) textAfter(x, y float64, f font, first string, f2 font, second string, limit float64) {
	const space = 8
	if second == "" || f.width(first)+space+f2.width(second) > limit {
		c.text(x, y, f, left, first, limit)
		return
	}
	c.open("text", attributes{"class", f.class, "x", num(x), "y", num(y)})
	c.WriteString(escape(first))
	c.open("tspan", attributes{"class", f2.class, "dx", num(space)})
	c.WriteString(escape(second) + "</tspan>")
	c.close("text")
}

// title is what a viewer shows on hovering, and a screen reader reads.
func (c *canvas) title(s string) { c.WriteString("<title>" + escape(s) + "</title>") }

// badge draws a claim's key in a disc of its colour, and returns its width.
func (c *canvas) badge(x, y float64, key string) float64 {
	w := max(18, fontBadge.width(key)+8)
	c.rect(x, y, w, 18, 9, c.claimClass(key))
	c.text(x+w/2, y+12.8, fontBadge, middle, key, w)
	return w
}

// claimClass is the style of a claim's colour.
func (c *canvas) claimClass(key string) string {
	return "pl-k" + strconv.Itoa(c.colour[key]%len(palette))
}
