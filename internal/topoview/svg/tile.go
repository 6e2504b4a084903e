// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"math"
	"strconv"

	"plumbline.dev/plumbline/internal/topoview"
)

// perRow is how many squares stand side by side.
const perRow = (tileWidth - 2*nodePad - rowLabel) / squareStep

// ofKind are a node's devices of a kind that are on offer.
func ofKind(n *topoview.ClusterNode, kind string) []topoview.Device {
	var list []topoview.Device
	for _, d := range n.Devices {
		if d.Kind == kind && d.Withheld == "" {
			list = append(list, d)
		}
	}
	return list
}

func squareRows(n int) float64 { return math.Ceil(float64(n) / perRow) }

func tileHeight(n *topoview.ClusterNode) float64 {
	h := float64(tileHead + nodePad)
	for _, kind := range []string{topoview.KindGPU, topoview.KindNIC} {
		h += squareRows(len(ofKind(n, kind))) * squareStep
	}
	if n.Capacity.CPUs.Total > 0 {
		h += gaugeHeight + 10
	}
	return h
}

func drawTile(c *canvas, n *topoview.ClusterNode, x, y, h float64) {
	c.open("g", attributes{"data-node", n.Name})
	c.rect(x, y, tileWidth, h, 12, "pl-node")
	c.text(x+nodePad, y+28, fontNode, left, n.Name, tileWidth-2*nodePad-90)
	c.text(x+tileWidth-nodePad, y+28, fontSmall, right, topoview.Plural(n.Claims, "claim", "claims"), 90)
	c.text(x+nodePad, y+46, fontBody, left, tilePairs(&n.Capacity), tileWidth-2*nodePad)
	at := y + tileHead
	at = drawSquares(c, ofKind(n, topoview.KindGPU), "GPU", x+nodePad, at)
	at = drawSquares(c, ofKind(n, topoview.KindNIC), "NIC", x+nodePad, at)
	drawGauge(c, n.Capacity.CPUs, x+nodePad, at+4)
	c.close("g")
}

// tilePairs is the free pairs in a few words.
func tilePairs(r *topoview.FreeCapacity) string {
	if r.PairedBy == "" {
		return "no GPU+NIC pairs"
	}
	text := topoview.Plural(r.Pairs.Free, "pair", "pairs") + " free of " + strconv.Itoa(r.Pairs.Total)
	largest := ""
	for _, g := range r.Groups {
		if g.Free > 0 {
			largest = "largest group " + strconv.Itoa(g.Size)
		}
	}
	stranded := ""
	if len(r.Stranded) > 0 {
		stranded = strconv.Itoa(len(r.Stranded)) + " stranded"
	}
	return topoview.Joined(" · ", text, largest, stranded)
}

func drawSquares(c *canvas, devices []topoview.Device, label string, x, y float64) float64 {
	if len(devices) == 0 {
		return y
	}
	c.text(x, y+13, fontCaption, left, label, rowLabel, accent(devices[0].Kind))
	for i, d := range devices {
		column, row := i%perRow, i/perRow
		class := "pl-card"
		switch {
		case len(d.Claims) > 0:
			class = c.claimClass(d.Claims[0])
		case d.Taint != "":
			class = "pl-reserved"
		case d.Stranded != "":
			class = "pl-stranded"
		}
		c.open("g", attributes{"data-device", d.Name})
		c.title(describe(d, c))
		c.rect(x+rowLabel+float64(column)*squareStep, y+float64(row)*squareStep, squareSize, squareSize, 3, class)
		c.close("g")
	}
	return y + squareRows(len(devices))*squareStep
}

// drawGauge shows how many CPUs are held.
func drawGauge(c *canvas, cpus topoview.Count, x, y float64) {
	if cpus.Total == 0 {
		return
	}
	w := float64(tileWidth - 2*nodePad - rowLabel)
	c.open("g", nil)
	c.title(strconv.Itoa(cpus.Free) + " of " + strconv.Itoa(cpus.Total) + " CPUs free")
	c.text(x, y+8, fontCaption, left, "CPUs", rowLabel)
	c.rect(x+rowLabel, y, w, gaugeHeight, 4, "pl-core")
	if held := cpus.Total - cpus.Free; held > 0 {
		c.rect(x+rowLabel, y, max(gaugeHeight, w*float64(held)/float64(cpus.Total)), gaugeHeight, 4, "pl-root")
	}
	c.close("g")
}
