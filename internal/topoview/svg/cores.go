// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"math"
	"slices"
	"strconv"

	"plumbline.dev/plumbline/internal/topoview"
)

// coreGrid is the cores of a node, one cell each, split into its threads.
type coreGrid struct {
	cores   []topoview.Core
	columns int
	// step and pitch are from one cell to the next, to the right and down.
	step, pitch float64
	label       float64 // width of the CPU number before each row
}

const (
	cellGap  = 5
	widest   = 48 // step
	narrow   = 26
	narrower = 19 // for many cores
)

// newCoreGrid fits the cores into limit pixels, in rows of equal length that
// fill them.
func newCoreGrid(cores []topoview.Core, limit float64) *coreGrid {
	g := &coreGrid{cores: cores, pitch: narrow}
	if len(cores) > 64 {
		g.pitch = narrower
	}
	for _, core := range cores {
		g.label = max(g.label, fontMicro.width(strconv.Itoa(core.CPUs[0]))+8)
	}
	room := limit - g.label + cellGap
	most := max(1, int(room/g.pitch))
	rows := max(1, (len(cores)+most-1)/most)
	g.columns = max(1, (len(cores)+rows-1)/rows)
	g.step = min(room/float64(g.columns), widest)
	return g
}

// height is 0 without cores.
func (g *coreGrid) height() float64 {
	if len(g.cores) == 0 {
		return 0
	}
	return math.Ceil(float64(len(g.cores))/float64(g.columns))*g.pitch - cellGap
}

func (g *coreGrid) draw(c *canvas, x, y float64) {
	for i, core := range g.cores {
		column, row := i%g.columns, i/g.columns
		cx, cy := x+g.label+float64(column)*g.step, y+float64(row)*g.pitch
		if column == 0 {
			c.text(x+g.label-8, cy+(g.pitch-cellGap)/2+3.5, fontMicro, right, strconv.Itoa(core.CPUs[0]), g.label)
		}
		g.drawCore(c, core, cx, cy)
	}
}

// drawCore draws the threads of a core as stripes of one cell.
func (g *coreGrid) drawCore(c *canvas, core topoview.Core, x, y float64) {
	const gap = 1
	high := g.pitch - cellGap
	c.open("g", nil)
	c.title(describeCore(core, c))
	w := (g.step - cellGap - gap*float64(len(core.CPUs)-1)) / float64(len(core.CPUs))
	for i := range core.CPUs {
		class := "pl-core"
		switch {
		case core.Claims != nil && core.Claims[i] != "":
			class = c.claimClass(core.Claims[i])
		case slices.Contains(core.Reserved, core.CPUs[i]):
			class = "pl-reserved"
		}
		c.rect(x+float64(i)*(w+gap), y, w, high, 2.5, class)
	}
	c.close("g")
}

func describeCore(core topoview.Core, c *canvas) string {
	text := ""
	for i, cpu := range core.CPUs {
		one := "CPU " + strconv.Itoa(cpu)
		if slices.Contains(core.Reserved, cpu) {
			one += " reserved"
		}
		if core.Claims != nil && core.Claims[i] != "" {
			one += " held by " + c.claimName(core.Claims[i])
		}
		text = topoview.Joined(", ", text, one)
	}
	return text
}
