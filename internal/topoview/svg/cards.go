// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/topoview"
)

const (
	cardWidth  = 200
	cardHeight = 64
	cardGap    = 10
	partHeight = 22
	maxColumns = 4
)

// cards are the devices of one bus: accelerators in the upper rows, NICs below
// them, anything else last, in columns.
type cards struct {
	rows    []cardRow
	columns int
}

// cardRow is devices side by side. The only one of its kind takes the whole
// width: one GPU over its NICs, one NIC under its GPUs.
type cardRow struct {
	devices []topoview.Device
	only    bool
}

func newCards(devices []topoview.Device) *cards {
	kinds := make([][]topoview.Device, 3)
	for _, d := range devices {
		i := 2
		switch d.Kind {
		case topoview.KindGPU, topoview.KindAccelerator:
			i = 0
		case topoview.KindNIC:
			i = 1
		}
		kinds[i] = append(kinds[i], d)
	}
	g := &cards{columns: columns(len(kinds[0]), len(kinds[1])+len(kinds[2]))}
	for _, kind := range kinds {
		for row := range slices.Chunk(kind, g.columns) {
			g.rows = append(g.rows, cardRow{devices: row, only: len(kind) == 1})
		}
	}
	return g
}

// columns gives each accelerator its own, and others at most two rows below
// it.
func columns(accelerators, others int) int {
	n := max(accelerators, (others+1)/2)
	if accelerators == 0 {
		n = min(others, 2)
	}
	if accelerators == 0 && others > 6 {
		n = maxColumns
	}
	return min(max(n, 1), maxColumns)
}

func (g *cards) size() (w, h float64) {
	for _, row := range g.rows {
		h += row.height() + cardGap
	}
	return float64(g.columns)*(cardWidth+cardGap) - cardGap, h - cardGap
}

// height is that of the row's tallest card.
func (r cardRow) height() float64 {
	h := float64(cardHeight)
	for i := range r.devices {
		h = max(h, heightOf(&r.devices[i]))
	}
	return h
}

// heightOf is that of a card: a GPU's parts stand in it, below each other.
func heightOf(d *topoview.Device) float64 {
	lines := len(d.Parts)
	if len(d.Profiles) > 0 {
		lines++
	}
	if lines == 0 {
		return cardHeight
	}
	return cardHeight + float64(lines)*partHeight + 4
}

func (g *cards) draw(c *canvas, x, y float64) {
	full, _ := g.size()
	for _, row := range g.rows {
		w := float64(cardWidth)
		if row.only {
			w = full
		}
		for i, d := range row.devices {
			drawCard(c, d, x+float64(i)*(cardWidth+cardGap), y, w)
		}
		y += row.height() + cardGap
	}
}

func accent(kind string) string {
	switch kind {
	case topoview.KindGPU, topoview.KindAccelerator:
		return "pl-gpu"
	case topoview.KindNIC:
		return "pl-nic"
	}
	return "pl-other"
}

func drawCard(c *canvas, d topoview.Device, x, y, w float64) {
	class := "pl-device"
	if d.Withheld != "" || d.Passthrough != "" && d.Name == "" {
		class += " pl-off"
	}
	id := d.Name
	if id == "" {
		id = d.Address
	}
	c.open("g", attributes{"class", class, "data-device", id, "data-kind", d.Kind})
	c.title(describe(d, c))
	frame, holders, h := "pl-card", d.WholeClaims(), heightOf(&d)
	switch {
	case d.Stranded != "":
		frame = "pl-stranded"
	case len(holders) > 0:
		frame = heldClass(c, holders[0])
	}
	c.rect(x, y, w, h, 7, frame)
	c.rect(x+7, y+9, 4, h-18, 2, accent(d.Kind))

	// The first line: what it is called, who holds it, its kind.
	edge := x + w - 10
	kind := topoview.KindLabel(d.Kind)
	c.text(edge, y+20, fontCaption, right, kind, 40, accent(d.Kind))
	edge -= fontCaption.width(kind) + 8
	edge = drawBadges(c, holders, edge, y+7)
	c.textAfter(x+19, y+21, fontCard, cardTitle(d), fontSmall, topoview.Memory(d.MemoryMiB), edge-x-19)

	details := []string{}
	if d.Stranded != "" || d.Withheld == "" && (d.Taint != "" || len(d.Owners) > 0) {
		details = append(details, "pl-warn")
	}
	c.text(x+19, y+37, fontSmall, left, cardDetails(d), w-29, details...)

	third := d.Address
	if d.Kind == topoview.KindNIC {
		third = d.Name
	}
	edge = x + w - 10
	if link := d.Link.Text("×"); link != "" {
		if d.Link.Degraded {
			link = "↓ " + link
		}
		c.text(edge, y+53, fontMicro, right, link, 90)
		edge -= fontMicro.width(link) + 6
	}
	c.text(x+19, y+53, fontMicro, left, third, edge-x-19)
	drawParts(c, &d, x+19, y+cardHeight-2, w-29)
	c.close("g")
}

// heldClass is that of a frame around what a claim holds.
func heldClass(c *canvas, key string) string {
	return strings.Replace(c.claimClass(key), "pl-k", "pl-h", 1)
}

// drawParts draws the parts of a GPU below each other, and what more it can be split
// into.
func drawParts(c *canvas, d *topoview.Device, x, y, w float64) {
	for i := range d.Parts {
		p := &d.Parts[i]
		frame := "pl-card"
		if len(p.Claims) > 0 {
			frame = heldClass(c, p.Claims[0])
		}
		c.open("g", attributes{"data-part", p.Name})
		parts := []string{p.Name, p.Profile, p.Form(), topoview.Memory(p.MemoryMiB), topoview.SharedText(p.SharedBy)}
		if p.Taint != "" {
			parts = append(parts, "tainted: "+p.Taint)
		}
		c.title(topoview.Joined(" · ", append(parts, heldBy(c, p.Claims)...)...))
		c.rect(x, y, w, partHeight-4, 4, frame)
		edge := drawBadges(c, p.Claims, x+w-2, y)
		about := topoview.Joined(" · ", topoview.Memory(p.MemoryMiB), topoview.SharedText(p.SharedBy))
		if p.VFIO {
			about = vfioWords(p)
		}
		c.textAfter(x+6, y+12.8, fontSmall, p.Label(), fontMicro, about, edge-x-6)
		c.close("g")
		y += partHeight
	}
	if len(d.Profiles) > 0 {
		c.text(x, y+12.5, fontMicro, left, "on demand: "+strings.Join(d.Profiles, ", "), w)
	}
}

// vfioWords are as much as a part's line has room for; the tooltip says it whole.
func vfioWords(p *topoview.Part) string {
	if len(p.Claims) > 0 {
		return "for a VM"
	}
	return "for VMs"
}

// heldBy says of each key whose it is.
func heldBy(c *canvas, keys []string) []string {
	var words []string
	for _, key := range keys {
		words = append(words, "held by "+c.claimName(key))
	}
	return words
}

// drawBadges draws the keys of the holders, right-aligned at edge, and returns
// what is left.
func drawBadges(c *canvas, keys []string, edge, y float64) float64 {
	shown := keys
	if len(shown) > 3 {
		shown = shown[:2]
		more := "+" + num(float64(len(keys)-2))
		c.text(edge, y+13, fontSmall, right, more, 30)
		edge -= fontSmall.width(more) + 4
	}
	for _, key := range slices.Backward(shown) {
		w := max(18, fontBadge.width(key)+8)
		c.badge(edge-w, y, key)
		edge -= w + 3
	}
	return edge - 4
}

// cardTitle is the name people use: a NIC's interface, else its RDMA device.
func cardTitle(d topoview.Device) string {
	for _, s := range []string{d.Interface, d.RDMA, d.Name} {
		if s != "" {
			return s
		}
	}
	return kindWord(d.Kind)
}

// kindWord begins a card of a device without a name.
func kindWord(kind string) string {
	if kind == topoview.KindGPU {
		return topoview.KindLabel(kind)
	}
	return strings.ToUpper(kind[:1]) + kind[1:]
}

func cardDetails(d topoview.Device) string {
	switch {
	case d.Withheld != "":
		return "never offered: " + d.Withheld
	case d.Taint != "":
		return "tainted: " + d.Taint
	case len(d.Owners) > 0:
		return d.OwnersText()
	case d.Slots != nil:
		return topoview.Joined(" · ", strandedWord(d), d.UsedUpText(), d.SlotsBrief(), stars(d))
	case d.Kind == topoview.KindNIC && d.Interface == "":
		return topoview.Joined(" · ", strandedWord(d), topoview.NetworkSpeed(d.NetworkMbps), "no interface", stars(d))
	case d.Kind == topoview.KindNIC:
		return topoview.Joined(" · ", strandedWord(d), d.RDMAText(), topoview.NetworkSpeed(d.NetworkMbps), stars(d))
	case d.Passthrough != "":
		return topoview.Joined(" · ", d.Passthrough+", for VMs", d.Model)
	case d.Name == "" && d.Resource != "":
		return topoview.Joined(" · ", d.Resource, topoview.SharedText(d.SharedBy), d.Model)
	case d.Kind == topoview.KindGPU && d.Name == "":
		return topoview.Joined(" · ", strings.TrimPrefix(d.PartsOnlyText(), "offered "), d.Model)
	case d.Name == "":
		return topoview.Joined(" · ", d.Model, "not offered")
	}
	return topoview.Joined(" · ", strandedWord(d), d.UsedUpText(), topoview.SharedText(d.SharedBy), d.Model, stars(d))
}

// strandedWord is as much as a card has room for; the tooltip says why.
func strandedWord(d topoview.Device) string {
	if d.Stranded == "" {
		return ""
	}
	return "stranded"
}

// stars mark what a footnote explains.
func stars(d topoview.Device) string {
	var parts []string
	if d.Simulated != "" {
		parts = append(parts, "simulated")
	}
	if d.Misplaced {
		parts = append(parts, "says node "+num(float64(*d.NUMANode)))
	}
	return strings.Join(parts, ", ")
}

// describe is all there is to say about a device, in one line.
func describe(d topoview.Device, c *canvas) string {
	parts := []string{
		topoview.KindLabel(d.Kind), d.Name, d.Address, d.Model, d.Interface, d.RDMAText(),
		topoview.NetworkSpeed(d.NetworkMbps), topoview.Memory(d.MemoryMiB), d.Link.Text("×"),
	}
	if d.Withheld != "" {
		parts = append(parts, "never offered: "+d.Withheld)
	}
	if d.Taint != "" {
		parts = append(parts, "tainted: "+d.Taint)
	}
	if d.Stranded != "" {
		parts = append(parts, "stranded: "+d.Stranded)
	}
	parts = append(parts, d.SlotsText(), d.UsedUpText(), d.PassthroughText())
	if len(d.Owners) > 0 {
		parts = append(parts, d.OwnersText())
	} else if d.Resource != "" {
		parts = append(parts, d.ResourceText())
	}
	if d.Simulated != "" {
		parts = append(parts, "simulated: "+d.Simulated)
	}
	if len(d.Profiles) > 0 {
		parts = append(parts, "MIG on demand: "+strings.Join(d.Profiles, ", "))
	}
	parts = append(append(parts, topoview.SharedText(d.SharedBy)), heldBy(c, d.Claims)...)
	return topoview.Joined(" · ", parts...)
}
