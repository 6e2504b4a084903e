// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"strconv"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/topoview"
)

const (
	nodePad    = 20
	nodeHead   = 58 // its two lines of text
	holdHeight = 26
	// flowLimit is how wide a node's roots may stand: four cards in boxes.
	flowLimit = 4*(cardWidth+2*pad) + 3*flowGapX
)

// nodeBox is the panel of one NUMA node, or of what is on none.
type nodeBox struct {
	node  *topoview.Node
	cores *coreGrid
	roots *flow
	w, h  float64
}

func newNodeBox(n *topoview.Node) *nodeBox {
	b := &nodeBox{node: n}
	var items []trunked
	for i := range n.Roots {
		items = append(items, newRootBox(&n.Roots[i], flowLimit))
	}
	if len(n.Devices) > 0 {
		items = append(items, &looseBox{busBox: newBusBox(nil, n.Devices, nil, flowLimit)})
	}
	b.roots = newFlow(items, flowLimit)
	w, _ := b.roots.size()
	b.setWidth(max(w, 2*cardWidth+cardGap) + 2*nodePad)
	return b
}

// setWidth makes the panel as wide as its neighbours.
func (b *nodeBox) setWidth(w float64) {
	b.w = w
	b.cores = newCoreGrid(b.node.Cores, w-2*nodePad)
	b.h = nodeHead + nodePad
	if h := b.cores.height(); h > 0 {
		b.h += h + 6
	}
	if len(b.node.Holds) > 0 {
		b.h += holdHeight
	}
	if _, h := b.roots.size(); h > 0 {
		b.h += h
	}
}

func (b *nodeBox) size() (w, h float64) { return b.w, b.h }

func (b *nodeBox) draw(c *canvas, x, y float64) {
	title, class, id := "No NUMA node known", "pl-loose", ""
	if b.node.ID != nil {
		id = strconv.Itoa(*b.node.ID)
		title, class = "NUMA node "+id, "pl-node"
	}
	c.open("g", attributes{"data-numa-node", id})
	c.rect(x, y, b.w, b.h, 12, class)
	inner := b.w - 2*nodePad
	memory := topoview.Memory(b.node.MemoryMiB)
	if memory != "" {
		memory += " memory"
	}
	c.text(x+nodePad, y+29, fontNode, left, title, inner-fontHead.width(memory)-10)
	c.text(x+b.w-nodePad, y+29, fontHead, right, memory, inner)
	if b.node.ID != nil || b.node.CPUCount > 0 {
		device := b.node.CPUDevice
		c.text(x+b.w-nodePad, y+47, fontMicro, right, device, inner)
		c.text(x+nodePad, y+47, fontBody, left, b.node.CPUText(), inner-fontMicro.width(device)-12)
	}
	c.close("g")

	at := y + nodeHead
	if h := b.cores.height(); h > 0 {
		b.cores.draw(c, x+nodePad, at)
		at += h + 6
	}
	if len(b.node.Holds) > 0 {
		b.drawHolds(c, x+nodePad, at+2)
		at += holdHeight
	}
	if w, h := b.roots.size(); h > 0 {
		b.roots.draw(c, x+(b.w-w)/2, at, x+b.w/2)
	}
}

// drawHolds says who holds how many CPUs, as far as there is room.
func (b *nodeBox) drawHolds(c *canvas, x, y float64) {
	end := x + b.w - 2*nodePad
	for i, h := range b.node.Holds {
		text := holdText(h)
		more := "+" + strconv.Itoa(len(b.node.Holds)-i) + " more"
		need := 24 + min(fontSmall.width(text), 200) + 16
		if x+need > end-fontSmall.width(more) && i < len(b.node.Holds)-1 || x+need > end {
			c.text(x, y+13, fontSmall, left, more, end-x)
			return
		}
		x += c.badge(x, y, h.Claim) + 6
		c.text(x, y+13, fontSmall, left, text, 200)
		x += min(fontSmall.width(text), 200) + 16
	}
}

// holdText is "4 CPUs 1-2,113-114", or "4 of these CPUs".
func holdText(h topoview.CPUHold) string {
	if h.CPUs == "" {
		return strconv.Itoa(h.Count) + " of these CPUs"
	}
	return plural.Count(h.Count, "CPU", "CPUs") + " " + h.CPUs
}

// looseBox is devices that hang from no PCIe root.
type looseBox struct{ *busBox }

func (b *looseBox) size() (w, h float64) {
	w, h = b.busBox.size()
	return w, h + pillHeight
}
func (b *looseBox) dashed() bool { return true }

func (b *looseBox) draw(c *canvas, x, y float64) {
	w, _ := b.size()
	c.text(x+w/2, y+17, fontBody, middle, "on no PCIe root", w)
	b.busBox.draw(c, x, y+pillHeight)
}
