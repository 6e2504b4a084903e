// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package poster

import (
	"slices"

	"plumbline.dev/plumbline/internal/topoview"
)

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
	if len(t.Room.Stranded) > 0 {
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
