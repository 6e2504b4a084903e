// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"strconv"

	"plumbline.dev/plumbline/internal/topoview"
)

const (
	distanceCell  = 46
	distanceHigh  = 24
	distanceHead  = 58
	distanceLabel = 80
)

// distanceBox is the table of distances, for machines with more nodes than a
// link between neighbours can tell about.
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
