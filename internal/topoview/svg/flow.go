// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import "strings"

// box is a part of the picture with its size.
type box interface {
	// size is width and height in pixels.
	size() (w, h float64)
	// draw draws the box with its upper left corner at x, y.
	draw(c *canvas, x, y float64)
}

// trunked is a box that a line from above leads to.
type trunked interface {
	box
	// dashed says that the line is so.
	dashed() bool
}

// flow sets boxes in rows and leads lines to them from above: a bus over each
// row, and where there are several rows a rail at the left that feeds them.
type flow struct {
	rows [][]trunked
	w, h float64
}

const (
	flowLead   = 26 // from a bus's feeding point to the boxes
	flowBus    = 11 // of which above the bus
	flowGapX   = 16
	flowGutter = 20 // for the rail
	flowGapY   = 8
)

// newFlow sets items in rows of at most limit pixels.
func newFlow(items []trunked, limit float64) *flow {
	f := &flow{}
	var row []trunked
	rowWidth := 0.0
	for _, item := range items {
		w, _ := item.size()
		if len(row) > 0 && rowWidth+flowGapX+w > limit {
			f.rows = append(f.rows, row)
			row, rowWidth = nil, 0
		}
		if len(row) > 0 {
			rowWidth += flowGapX
		}
		row = append(row, item)
		rowWidth += w
	}
	if len(row) > 0 {
		f.rows = append(f.rows, row)
	}
	for i, row := range f.rows {
		w, h := rowSize(row)
		f.w = max(f.w, w)
		f.h += flowLead + h
		if i > 0 {
			f.h += flowGapY
		}
	}
	f.w += f.gutter()
	return f
}

func rowSize(row []trunked) (width, height float64) {
	for i, item := range row {
		w, h := item.size()
		if i > 0 {
			width += flowGapX
		}
		width += w
		height = max(height, h)
	}
	return width, height
}

func (f *flow) gutter() float64 {
	if len(f.rows) > 1 {
		return flowGutter
	}
	return 0
}

func (f *flow) size() (w, h float64) { return f.w, f.h }

// draw draws the rows; from is the x that the line from above comes down at.
func (f *flow) draw(c *canvas, x, y, from float64) {
	var lines strokes
	rail := x + 4
	lines.down(from, y, y+flowBus)
	for i, row := range f.rows {
		bus := y + flowBus
		_, h := rowSize(row)
		feed := from
		if len(f.rows) > 1 {
			feed = rail
		}
		if i == 0 {
			lines.across(from, feed, bus)
		}
		if i < len(f.rows)-1 {
			lines.down(rail, bus, bus+flowLead+h+flowGapY)
		}
		at := x + f.gutter()
		for _, item := range row {
			w, _ := item.size()
			lines.across(feed, at+w/2, bus)
			if item.dashed() {
				c.line(at+w/2, bus, at+w/2, y+flowLead, "pl-trunk pl-dash")
			} else {
				lines.down(at+w/2, bus, y+flowLead)
			}
			at += w + flowGapX
		}
		y += flowLead + h + flowGapY
	}
	// Below the boxes, and in one path: lines that overlap in two would look
	// thicker where they do.
	c.path("pl-trunk", lines.String())
	f.drawBoxes(c, x+f.gutter(), y-f.h-flowGapY)
}

func (f *flow) drawBoxes(c *canvas, x, y float64) {
	for _, row := range f.rows {
		at := x
		for _, item := range row {
			w, _ := item.size()
			item.draw(c, at, y+flowLead)
			at += w + flowGapX
		}
		_, h := rowSize(row)
		y += flowLead + h + flowGapY
	}
}

// strokes is the data of a path of straight lines.
type strokes struct{ strings.Builder }

func (s *strokes) down(x, y1, y2 float64) {
	s.WriteString("M" + num(x) + " " + num(y1) + "V" + num(y2))
}

func (s *strokes) across(x1, x2, y float64) {
	if num(x1) != num(x2) {
		s.WriteString("M" + num(x1) + " " + num(y) + "H" + num(x2))
	}
}
