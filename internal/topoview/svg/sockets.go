// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/topoview"
)

const (
	socketPad  = 16
	socketHead = 40
	socketGap  = 92 // room for the link between sockets
	nodeGap    = 34 // room for the link between nodes
)

// socketBox is one CPU package with its nodes one below the other.
type socketBox struct {
	socket *topoview.Socket
	nodes  []*nodeBox
	w, h   float64
}

func newSocketBox(s *topoview.Socket) *socketBox {
	b := &socketBox{socket: s}
	for i := range s.Nodes {
		b.nodes = append(b.nodes, newNodeBox(&s.Nodes[i]))
		b.w = max(b.w, b.nodes[i].w)
	}
	b.setWidth(b.w + 2*socketPad)
	return b
}

func (b *socketBox) setWidth(w float64) {
	b.w, b.h = w, socketHead+socketPad
	for i, n := range b.nodes {
		n.setWidth(w - 2*socketPad)
		if i > 0 {
			b.h += nodeGap
		}
		b.h += n.h
	}
}

func (b *socketBox) draw(c *canvas, x, y float64) {
	c.rect(x, y, b.w, b.h, 18, "pl-socket")
	label := b.socket.Label()
	c.text(x+socketPad+6, y+27, fontSocket, left, strings.ToUpper(label[:1])+label[1:], b.w-2*socketPad)
	at := y + socketHead
	for i, n := range b.nodes {
		if i > 0 {
			centre := x + b.w/2
			drawDistance(c, b.nodes[i-1].node, n.node, centre, at-nodeGap, centre, at)
		}
		if i == len(b.nodes)-1 {
			n.h = max(n.h, y+b.h-socketPad-at) // down to the socket's edge
		}
		n.draw(c, x+socketPad, at)
		at += n.h + nodeGap
	}
}

// socketGrid sets the sockets in rows, all of one width.
type socketGrid struct {
	boxes   []*socketBox
	columns int
}

func newSocketGrid(sockets []topoview.Socket) *socketGrid {
	g := &socketGrid{columns: min(max(len(sockets), 1), 2)}
	if len(sockets) > 4 {
		g.columns = 4
	}
	widest := 0.0
	for i := range sockets {
		g.boxes = append(g.boxes, newSocketBox(&sockets[i]))
		widest = max(widest, g.boxes[i].w)
	}
	for _, b := range g.boxes {
		b.setWidth(widest)
	}
	return g
}

// stretch widens the sockets to fill w pixels.
func (g *socketGrid) stretch(w float64) {
	n := float64(g.columns)
	for _, b := range g.boxes {
		b.setWidth((w - (n-1)*socketGap) / n)
	}
}

func (g *socketGrid) rowHeight(row int) float64 {
	h := 0.0
	for i := row * g.columns; i < min((row+1)*g.columns, len(g.boxes)); i++ {
		h = max(h, g.boxes[i].h)
	}
	return h
}

func (g *socketGrid) rows() int { return (len(g.boxes) + g.columns - 1) / g.columns }

func (g *socketGrid) size() (w, h float64) {
	if len(g.boxes) == 0 {
		return 0, 0
	}
	n := float64(g.columns)
	w = n*g.boxes[0].w + (n-1)*socketGap
	for row := range g.rows() {
		if row > 0 {
			h += socketGap / 2
		}
		h += g.rowHeight(row)
	}
	return w, h
}

func (g *socketGrid) draw(c *canvas, x, y float64) {
	for row := range g.rows() {
		at := x
		for i := row * g.columns; i < min((row+1)*g.columns, len(g.boxes)); i++ {
			b := g.boxes[i]
			if i > row*g.columns && len(b.nodes) > 0 && len(g.boxes[i-1].nodes) > 0 {
				from := g.boxes[i-1].nodes[0]
				level := y + socketHead + 96
				drawDistance(c, from.node, b.nodes[0].node, at-socketGap, level, at, level)
			}
			// Sockets of one row are of one height.
			b.h = g.rowHeight(row)
			b.draw(c, at, y)
			at += b.w + socketGap
		}
		y += g.rowHeight(row) + socketGap/2
	}
}

// drawDistance draws the link between two neighbours, with the SLIT distance of
// their nodes where the firmware gives one.
func drawDistance(c *canvas, a, b *topoview.Node, x1, y1, x2, y2 float64) {
	if a.ID == nil || b.ID == nil {
		return
	}
	c.line(x1, y1, x2, y2, "pl-slit")
	c.line(x1, y1, x2, y2, "pl-slit2")
	d, known := a.Distances[*b.ID]
	if !known {
		return
	}
	text := strconv.Itoa(d)
	x, y := (x1+x2)/2, (y1+y2)/2
	w := fontCard.width(text) + 18
	c.open("g", nil)
	c.title("distance " + text + " from NUMA node " + strconv.Itoa(*a.ID) + " to " + strconv.Itoa(*b.ID) + ", 10 is local")
	c.rect(x-w/2, y-12, w, 24, 12, "pl-chip")
	c.text(x, y+4.5, fontCard, middle, text, w)
	c.close("g")
	if x1 != x2 {
		c.text(x, y+28, fontCaption, middle, "distance", socketGap)
	}
}

const (
	distanceCell  = 46
	distanceHigh  = 24
	distanceHead  = 58
	distanceLabel = 80
)

// distanceBox is the table of distances, for machines with more nodes than a
// link between neighbours can show.
type distanceBox struct {
	nodes []*topoview.Node
	far   int
}

func newDistances(t *topoview.Topology) *distanceBox {
	const fewest, most = 3, 16
	b := &distanceBox{}
	for i := range t.Sockets {
		for j := range t.Sockets[i].Nodes {
			n := &t.Sockets[i].Nodes[j]
			for _, d := range n.Distances {
				b.far = max(b.far, d)
			}
			b.nodes = append(b.nodes, n)
		}
	}
	if len(b.nodes) < fewest || len(b.nodes) > most || b.far == 0 {
		return nil
	}
	return b
}

func (b *distanceBox) size() (w, h float64) {
	n := float64(len(b.nodes))
	return distanceLabel + n*distanceCell, distanceHead + n*distanceHigh
}

func (b *distanceBox) draw(c *canvas, x, y float64) {
	c.text(x, y+16, fontSocket, left, "Distances between NUMA nodes", 400)
	for i, from := range b.nodes {
		at := y + distanceHead + float64(i)*distanceHigh
		column := x + distanceLabel + float64(i)*distanceCell
		c.text(column+distanceCell/2, y+distanceHead-8, fontSmall, middle, strconv.Itoa(*from.ID), distanceCell)
		c.text(x, at+16, fontSmall, left, "from node "+strconv.Itoa(*from.ID), distanceLabel)
		for j, to := range b.nodes {
			if d, known := from.Distances[*to.ID]; known {
				b.cell(c, x+distanceLabel+float64(j)*distanceCell, at, d)
			}
		}
	}
}

// cell is darker the farther the nodes are apart; 10 is local.
func (b *distanceBox) cell(c *canvas, x, y float64, d int) {
	const local = 10
	shade := 0.06
	if b.far > local {
		shade += 0.3 * float64(max(d-local, 0)) / float64(b.far-local)
	}
	c.element("rect", attributes{
		"class", "pl-root", "opacity", strconv.FormatFloat(shade, 'f', 2, 64),
		"x", num(x + 1), "y", num(y + 1), "width", num(distanceCell - 2), "height", num(distanceHigh - 2), "rx", "4",
	})
	c.text(x+distanceCell/2, y+16, fontSmall, middle, strconv.Itoa(d), distanceCell, "pl-ink")
}
