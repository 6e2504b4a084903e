// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"plumbline.dev/plumbline/internal/topoview"
)

const (
	pad        = 12
	pillHeight = 26
	headHeight = 28
)

// rootBox is a PCIe root: a pill on the trunk, and what hangs from it.
type rootBox struct {
	root  *topoview.Root
	below *flow
	w, h  float64
}

func newRootBox(r *topoview.Root, limit float64) *rootBox {
	b := &rootBox{root: r, below: newFlow(branches(&r.Branch, limit), limit)}
	w, h := b.below.size()
	b.w, b.h = max(w, cardWidth), h+pillHeight
	return b
}

func (b *rootBox) size() (w, h float64) { return b.w, b.h }
func (b *rootBox) dashed() bool         { return !b.root.Published }

func (b *rootBox) draw(c *canvas, x, y float64) {
	name := fontMono.fit(b.root.Name, b.w-28)
	w := fontMono.width(name) + 28
	centre := x + b.w/2
	class, on := "pl-root", "pl-on"
	if !b.root.Published {
		class, on = "pl-rootless", ""
	}
	c.open("g", attributes{"data-root", b.root.Name})
	if b.root.Published {
		c.title("PCIe root " + b.root.Name)
	} else {
		c.title("PCIe root " + b.root.Name + ": no pcieRoot is published")
	}
	c.rect(centre-w/2, y, w, pillHeight, pillHeight/2, class)
	c.text(centre, y+17.5, fontMono, middle, b.root.Name, w-20, on)
	c.close("g")
	fw, _ := b.below.size()
	b.below.draw(c, x+(b.w-fw)/2, y+pillHeight, centre)
}

// branches are the boxes that hang from a bus: its own devices together, then
// each bridge.
func branches(br *topoview.Branch, limit float64) []trunked {
	var list []trunked
	if len(br.Devices) > 0 {
		list = append(list, newBusBox(nil, br.Devices, nil, limit))
	}
	for i := range br.Bridges {
		p := &br.Bridges[i]
		list = append(list, newBusBox(p, p.Devices, bridgeBoxes(p.Bridges, limit-2*pad), limit))
	}
	return list
}

func bridgeBoxes(bridges []topoview.Bridge, limit float64) []trunked {
	var list []trunked
	for i := range bridges {
		p := &bridges[i]
		list = append(list, newBusBox(p, p.Devices, bridgeBoxes(p.Bridges, limit-2*pad), limit))
	}
	return list
}

// busBox is what shares one bus: the devices below a switch or a bridge, or
// with a nil bridge those directly on a root.
type busBox struct {
	bridge *topoview.Bridge
	cards  *cards
	below  *flow
	w, h   float64
	// single is a card alone, which needs no box around it.
	single bool
}

func newBusBox(bridge *topoview.Bridge, devices []topoview.Device, below []trunked, limit float64) *busBox {
	b := &busBox{bridge: bridge, cards: newCards(devices)}
	if len(devices) > 0 {
		b.w, b.h = b.cards.size()
	}
	if bridge == nil && len(devices) == 1 {
		b.single = true
		return b
	}
	if len(below) > 0 {
		b.below = newFlow(below, limit)
		w, h := b.below.size()
		b.w, b.h = max(b.w, w), b.h+h
	}
	b.w, b.h = b.w+2*pad, b.h+2*pad
	if bridge != nil {
		b.w = max(b.w, cardWidth+2*pad)
		b.h += headHeight - pad
	}
	return b
}

func (b *busBox) size() (w, h float64) { return b.w, b.h }
func (b *busBox) dashed() bool         { return false }

func (b *busBox) draw(c *canvas, x, y float64) {
	if b.single {
		b.cards.draw(c, x, y)
		return
	}
	c.rect(x, y, b.w, b.h, 10, "pl-switch")
	inner := y + pad
	if b.bridge != nil {
		c.open("g", attributes{"data-bridge", b.bridge.Address})
		link := b.bridge.Link.Text("×")
		c.text(x+b.w-pad, y+18.5, fontMicro, right, link, 100)
		room := b.w - 2*pad - fontMicro.width(link) - 10
		c.text(x+pad, y+18.5, fontMicro, left, b.bridge.Kind+" "+b.bridge.Address, room)
		c.close("g")
		inner = y + headHeight
	}
	if len(b.cards.rows) > 0 {
		w, h := b.cards.size()
		b.cards.draw(c, x+(b.w-w)/2, inner)
		inner += h
	}
	if b.below != nil {
		w, _ := b.below.size()
		b.below.draw(c, x+(b.w-w)/2, inner, x+b.w/2)
	}
}
