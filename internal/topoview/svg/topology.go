// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"fmt"
	"io"
	"strings"

	"plumbline.dev/plumbline/internal/topoview"
)

const (
	margin     = 48
	titleSpace = 112
	roomLine   = 24
	sectionGap = 28
	minPage    = 760
	keyWidth   = 300
)

// Topology writes the picture of a topology.
func Topology(w io.Writer, t *topoview.Topology) error {
	c := &canvas{colour: map[string]int{}, claims: map[string]topoview.Claim{}}
	for i, claim := range t.Claims {
		c.colour[claim.Key] = i
		c.claims[claim.Key] = claim
	}
	p := newPage(t)
	c.open("svg", attributes{
		"xmlns", "http://www.w3.org/2000/svg", "class", "pl", "role", "img",
		"aria-labelledby", "pl-title pl-desc",
		"width", num(p.w), "height", num(p.h), "viewBox", "0 0 " + num(p.w) + " " + num(p.h),
	})
	c.WriteString("\n" + `<title id="pl-title">` + escape("Topology of "+t.Name) + "</title>\n")
	c.WriteString(`<desc id="pl-desc">` + escape(describePage(t)) + "</desc>\n")
	c.WriteString("<style>" + styleSheet() + "</style>\n")
	p.draw(c)
	c.close("svg")
	if _, err := io.WriteString(w, c.String()); err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	return nil
}

// describePage is the picture in words.
func describePage(t *topoview.Topology) string {
	parts := []string{t.Headline(", ") + "."}
	if room := t.Capacity.Text(t.HoldersKnown); room != "" {
		parts = append(parts, "Room for "+room+".")
	}
	if stranded := t.Capacity.StrandedText(); stranded != "" {
		parts = append(parts, "Stranded: "+stranded+".")
	}
	for _, claim := range t.Claims {
		if claim.Resource != "" {
			parts = append(parts, fmt.Sprintf("Pod %s/%s holds %s by %s.", claim.Namespace, claim.Name, strings.Join(claim.Devices, ", "), claim.Resource))
			continue
		}
		parts = append(parts, fmt.Sprintf("Claim %s/%s holds %s.", claim.Namespace, claim.Name, strings.Join(claim.Devices, ", ")))
	}
	return strings.Join(append(parts, t.Notes...), " ")
}

// page is the whole picture.
type page struct {
	t       *topoview.Topology
	sockets *socketGrid
	// rest are boxes of the full width below the sockets.
	rest   []box
	footer []string
	w, h   float64
	// head is the height of the lines at the top.
	head float64
}

func newPage(t *topoview.Topology) *page {
	p := &page{t: t, sockets: newSocketGrid(t.Sockets)}
	w, _ := p.sockets.size()
	var unplaced *nodeBox
	if t.Unplaced != nil {
		unplaced = newNodeBox(t.Unplaced)
		w = max(w, unplaced.w)
	}
	inner := max(w, minPage-2*margin)
	p.w = inner + 2*margin
	p.sockets.stretch(inner)
	_, h := p.sockets.size()
	if d := newDistances(t); d != nil {
		p.rest = append(p.rest, d)
	}
	if t.MemoryOnly != nil {
		p.rest = append(p.rest, &memoryBox{only: t.MemoryOnly, w: inner})
	}
	if unplaced != nil {
		unplaced.setWidth(inner)
		p.rest = append(p.rest, unplaced)
	}
	if len(t.Claims) > 0 {
		p.rest = append(p.rest, newLegend(t.Claims, inner))
	}
	for _, note := range append([]string{sourceLine(t)}, t.Notes...) {
		p.footer = append(p.footer, fontSmall.wrap(note, inner-keyWidth)...)
	}
	p.head = titleSpace
	if t.Capacity.PairedBy != "" {
		p.head += roomLine
	}
	p.h = p.head + h
	for _, b := range p.rest {
		_, bh := b.size()
		p.h += sectionGap + bh
	}
	p.h += sectionGap + float64(max(len(keyOf(t)), len(p.footer)))*17 + margin - 10
	return p
}

func sourceLine(t *topoview.Topology) string {
	if t.Source == "" {
		return ""
	}
	return "from " + t.Source
}

func (p *page) draw(c *canvas) {
	c.rect(0, 0, p.w, p.h, 0, "pl-paper")
	inner := p.w - 2*margin
	c.text(margin, 66, fontTitle, left, p.t.Name, inner-130)
	c.text(margin, 92, fontHead, left, p.t.Headline(" · "), inner)
	drawMark(c, p.w-margin)

	if room := p.t.Capacity.Text(p.t.HoldersKnown); room != "" {
		c.text(margin, 92+roomLine, fontHead, left, "room for "+room, inner)
	}

	y := p.head
	p.sockets.draw(c, margin, y)
	_, h := p.sockets.size()
	y += h
	for _, b := range p.rest {
		y += sectionGap
		b.draw(c, margin, y)
		_, bh := b.size()
		y += bh
	}
	y += sectionGap
	drawKey(c, p.t, p.w-margin, y)
	for i, lineText := range p.footer {
		c.text(margin, y+12+float64(i)*17, fontSmall, left, lineText, inner)
	}
}

// drawMark signs the picture: a plumb line hangs from its upper edge at x, with
// the name beside the bob.
func drawMark(c *canvas, x float64) {
	c.path("pl-bob", "M"+num(x-10)+" 0v50")
	c.path("pl-bob pl-lead", "M"+num(x-16)+" 50h12l-1.5 8l-4.5 13l-4.5 -13z")
	c.text(x-28, 66, fontHead, right, "plumbline", 110)
}
