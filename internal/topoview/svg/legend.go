// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/topoview"
)

const (
	legendWidth  = 420
	legendHeight = 52
	legendLine   = 14
	memoryHeight = 64
)

// claimName is a claim's namespace and name by its key.
func (c *canvas) claimName(key string) string {
	claim := c.claims[key]
	return claim.Namespace + "/" + claim.Name
}

// legend lists the claims with their colours.
type legend struct {
	claims []topoview.Claim
	// devices are the lines of each claim's list of devices.
	devices [][]string
	columns int
	step    float64 // from one column to the next
	w, h    float64
}

func newLegend(claims []topoview.Claim, w float64) *legend {
	l := &legend{claims: claims, columns: max(1, int(w/legendWidth)), w: w, h: 38}
	l.step = w / float64(l.columns)
	for _, claim := range claims {
		l.devices = append(l.devices, fontMicro.wrap(strings.Join(claim.Devices, ", "), l.step-46))
	}
	for row := range l.rows() {
		l.h += l.rowHeight(row)
	}
	return l
}

func (l *legend) rows() int { return (len(l.claims) + l.columns - 1) / l.columns }

func (l *legend) rowHeight(row int) float64 {
	lines := 1
	for _, list := range l.devices[row*l.columns : min((row+1)*l.columns, len(l.devices))] {
		lines = max(lines, len(list))
	}
	return legendHeight + float64(lines-1)*legendLine
}

func (l *legend) size() (w, h float64) { return l.w, l.h }

// title says what is listed.
func (l *legend) title() string {
	plugged := func(c topoview.Claim) bool { return c.Resource != "" }
	switch {
	case !slices.ContainsFunc(l.claims, plugged):
		return "Claims"
	case !slices.ContainsFunc(l.claims, func(c topoview.Claim) bool { return !plugged(c) }):
		return "Pods of device plugins"
	}
	return "Claims, and pods of device plugins"
}

func (l *legend) draw(c *canvas, x, y float64) {
	c.line(x, y, x+l.w, y, "pl-rule")
	c.text(x, y+24, fontSocket, left, l.title(), l.w)
	room := l.step - 46
	cy := y + 38
	for i, claim := range l.claims {
		if i > 0 && i%l.columns == 0 {
			cy += l.rowHeight(i/l.columns - 1)
		}
		cx := x + float64(i%l.columns)*l.step
		what := "data-claim"
		if claim.Resource != "" {
			what = "data-pod"
		}
		c.open("g", attributes{what, claim.Namespace + "/" + claim.Name})
		c.badge(cx, cy, claim.Key)
		c.text(cx+28, cy+13, fontCard, left, claim.Namespace+"/"+claim.Name, room)
		pods := "reserved for no pod"
		switch {
		case claim.Resource != "":
			pods = "pod, by " + claim.Resource + " of a device plugin"
		case len(claim.Pods) > 0:
			pods = "pod " + strings.Join(claim.Pods, ", ")
		}
		c.text(cx+28, cy+28, fontSmall, left, pods, room)
		for j, list := range l.devices[i] {
			c.text(cx+28, cy+42+float64(j)*legendLine, fontMicro, left, list, room)
		}
		c.close("g")
	}
}

// memoryBox is the strip of NUMA nodes that are memory only.
type memoryBox struct {
	only *topoview.MemoryOnly
	w    float64
}

func (b *memoryBox) size() (w, h float64) { return b.w, memoryHeight }

func (b *memoryBox) draw(c *canvas, x, y float64) {
	c.rect(x, y, b.w, memoryHeight, 12, "pl-node")
	title := plural.Count(b.only.Count, "memory-only NUMA node", "memory-only NUMA nodes")
	c.text(x+nodePad, y+28, fontNode, left, title, b.w/2)
	c.text(x+nodePad, y+47, fontBody, left, topoview.Joined(" · ", "nodes "+b.only.Nodes, topoview.Memory(b.only.MemoryMiB), "neither CPUs nor devices"), b.w/2)
	room := b.w/2 - nodePad
	pitch := min(18, room/float64(b.only.Count))
	start := x + b.w - nodePad - pitch*float64(b.only.Count)
	for i := range b.only.Count {
		c.rect(start+float64(i)*pitch, y+(memoryHeight-24)/2, pitch*0.78, 24, 2, "pl-core")
	}
}

// keyEntry explains one style of cell.
type keyEntry struct {
	text string
	// stripes are the classes of the cell's stripes.
	stripes []string
}

// keyOf explains what the picture has.
func keyOf(t *topoview.Topology) []keyEntry {
	entries := []keyEntry{{"one cell a CPU", []string{"pl-core"}}}
	if anyCore(t, func(core topoview.Core) bool { return len(core.CPUs) > 1 }) {
		entries[0] = keyEntry{"one cell a core, one stripe a thread", []string{"pl-core", "pl-core"}}
	}
	if anyCore(t, func(core topoview.Core) bool { return len(core.Reserved) > 0 }) {
		entries = append(entries, keyEntry{"reserved: no claim can have it", []string{"pl-reserved"}})
	}
	if len(t.Capacity.Stranded) > 0 {
		entries = append(entries, keyEntry{"stranded: free, without a partner", []string{"pl-stranded"}})
	}
	return entries
}

// drawKey draws the entries one below the other, ending at x.
func drawKey(c *canvas, t *topoview.Topology, x, y float64) {
	const wide, gap = 17, 1
	for i, entry := range keyOf(t) {
		at := y + float64(i)*17
		c.text(x-24, at+12, fontSmall, right, entry.text, keyWidth-30)
		n := float64(len(entry.stripes))
		w := (wide - gap*(n-1)) / n
		for j, class := range entry.stripes {
			c.rect(x-wide+float64(j)*(w+gap), at+2, w, 13, 2, class)
		}
	}
}

func anyCore(t *topoview.Topology, is func(topoview.Core) bool) bool {
	for _, s := range t.Sockets {
		for _, n := range s.Nodes {
			if slices.ContainsFunc(n.Cores, is) {
				return true
			}
		}
	}
	return t.Unplaced != nil && slices.ContainsFunc(t.Unplaced.Cores, is)
}
