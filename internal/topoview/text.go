// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// TextOptions are how a text tree is drawn.
type TextOptions struct {
	// ASCII draws with +, | and - only.
	ASCII bool
}

// glyphs are the pieces of the tree's lines.
type glyphs struct{ tee, corner, bar, gap, separator, times string }

func (o TextOptions) glyphs() glyphs {
	if o.ASCII {
		return glyphs{"|- ", "`- ", "|  ", "   ", ", ", "x"}
	}
	return glyphs{"├─ ", "└─ ", "│  ", "   ", " · ", "×"}
}

// line is one line of the tree. A device's columns are aligned over the whole
// tree; any other line has one column of free text.
type line struct {
	prefix string
	text   string
	device bool
	// columns are those after the first, of a device only.
	columns []string
}

// textTree collects lines.
type textTree struct {
	glyphs
	claims map[string]Claim
	lines  []line
}

// branch is an entry of the tree with what hangs below it.
type branch struct {
	line
	below []branch
}

// Text writes a topology as a tree, one device a line.
func Text(w io.Writer, t *Topology, o TextOptions) error {
	tree := &textTree{glyphs: o.glyphs(), claims: map[string]Claim{}}
	for _, c := range t.Claims {
		tree.claims[c.Key] = c
	}
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, printable.Text(t.Name)+tree.separator+t.Headline(tree.separator))
	if t.Source != "" {
		fmt.Fprintln(out, "from "+printable.Text(t.Source))
	}
	tree.walk("", tree.topology(t))
	tree.write(out)
	tree.footer(out, t, o)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	return nil
}

func (tr *textTree) topology(t *Topology) []branch {
	var top []branch
	for _, s := range t.Sockets {
		b := branch{line: line{text: s.Label()}}
		for i := range s.Nodes {
			b.below = append(b.below, tr.node(&s.Nodes[i], t))
		}
		top = append(top, b)
	}
	if only := t.MemoryOnly; only != nil {
		text := Joined(tr.separator, plural.Count(only.Count, "memory-only node ", "memory-only nodes ")+only.Nodes, Memory(only.MemoryMiB))
		top = append(top, branch{line: line{text: text}})
	}
	if t.Unplaced != nil {
		top = append(top, tr.node(t.Unplaced, t))
	}
	return top
}

func (tr *textTree) node(n *Node, t *Topology) branch {
	text := "no NUMA node known"
	if n.ID != nil {
		text = "NUMA node " + strconv.Itoa(*n.ID)
	}
	cpus := ""
	if n.ID != nil || n.CPUCount > 0 {
		cpus = n.CPUText()
		if n.ReservedCount > 0 {
			cpus += tr.separator + "reserved " + n.Reserved
		}
	}
	b := branch{line: line{text: Joined(tr.separator, text, cpus, Memory(n.MemoryMiB), distances(n, t))}}
	for _, h := range n.Holds {
		b.below = append(b.below, branch{line: line{text: "CPU", device: true, columns: []string{
			printable.Text(h.Device), "", Joined(" ", plural.Count(h.Count, "CPU", "CPUs"), h.CPUs), "", tr.holders([]string{h.Claim}),
		}}})
	}
	for i := range n.Roots {
		r := &n.Roots[i]
		text := printable.Text(r.Name)
		if !r.Published {
			text += tr.separator + "no pcieRoot published"
		}
		b.below = append(b.below, branch{line: line{text: text}, below: tr.branch(&r.Branch)})
	}
	if len(n.Devices) > 0 {
		loose := branch{line: line{text: "on no PCIe root"}}
		for i := range n.Devices {
			loose.below = append(loose.below, tr.device(&n.Devices[i]))
		}
		b.below = append(b.below, loose)
	}
	return b
}

func (tr *textTree) branch(br *Branch) []branch {
	var list []branch
	for i := range br.Devices {
		list = append(list, tr.device(&br.Devices[i]))
	}
	for i := range br.Bridges {
		p := &br.Bridges[i]
		text := Joined(tr.separator, p.Kind+" "+p.Address, p.Link.Text(tr.times))
		list = append(list, branch{line: line{text: text}, below: tr.branch(&p.Branch)})
	}
	return list
}

func (tr *textTree) device(d *Device) branch {
	what := Joined(tr.separator, printable.Text(d.Model), Memory(d.MemoryMiB))
	if d.Kind == KindNIC {
		what = Joined(tr.separator, printable.Text(d.Interface), printable.Text(d.RDMAText()), NetworkSpeed(d.NetworkMbps))
	}
	linked := d.Link.Text(tr.times)
	if d.Link != nil && d.Link.Degraded {
		linked += " (degraded)"
	}
	return branch{line: line{
		text: KindLabel(d.Kind), device: true,
		columns: []string{printable.Text(d.Name), d.Address, what, linked, Joined(tr.separator, tr.holders(d.WholeClaims()), remark(d))},
	}, below: tr.parts(d)}
}

// parts are a line each, and one for those that are made on demand.
func (tr *textTree) parts(d *Device) []branch {
	var list []branch
	for i := range d.Parts {
		p := &d.Parts[i]
		text, taint := "part", ""
		switch {
		case p.Profile != "":
			text = "MIG"
		case p.VFIO:
			text = "VFIO"
		}
		if p.Taint != "" {
			taint = "tainted: " + printable.Text(p.Taint)
		}
		list = append(list, branch{line: line{text: text, device: true, columns: []string{
			printable.Text(p.Name), "", Joined(tr.separator, printable.Text(p.Profile), Memory(p.MemoryMiB)), "",
			Joined(tr.separator, tr.holders(p.Claims), p.Form(), SharedText(p.SharedBy), taint),
		}}})
	}
	if len(d.Profiles) > 0 {
		list = append(list, branch{line: line{text: "MIG on demand: " + printable.Text(strings.Join(d.Profiles, ", "))}})
	}
	return list
}

// remark is what is unusual about a device.
func remark(d *Device) string {
	var parts []string
	if shared := SharedText(d.SharedBy); shared != "" {
		parts = append(parts, shared)
	}
	if slots := d.SlotsText(); slots != "" {
		parts = append(parts, slots)
	}
	if left := d.UsedUpText(); left != "" {
		parts = append(parts, left)
	}
	for _, text := range []string{d.PartsOnlyText(), printable.Text(d.PassthroughText())} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	switch {
	case len(d.Owners) > 0:
		parts = append(parts, printable.Text(d.OwnersText()))
	case d.Resource != "":
		parts = append(parts, printable.Text(d.ResourceText()))
	}
	if d.Misplaced {
		parts = append(parts, "says NUMA node "+strconv.Itoa(*d.NUMANode))
	}
	if d.Withheld != "" {
		parts = append(parts, "never offered: "+printable.Text(d.Withheld))
	}
	if d.Taint != "" {
		parts = append(parts, "tainted: "+printable.Text(d.Taint))
	}
	if d.Stranded != "" {
		parts = append(parts, "stranded: "+printable.Text(d.Stranded))
	}
	if d.Simulated != "" {
		parts = append(parts, "simulated")
	}
	return strings.Join(parts, ", ")
}

func (tr *textTree) holders(keys []string) string {
	var names []string
	for _, k := range keys {
		c := tr.claims[k]
		names = append(names, "["+k+"] "+printable.Text(c.Namespace+"/"+c.Name))
	}
	return strings.Join(names, ", ")
}

// distances are those to other nodes with CPUs.
func distances(n *Node, t *Topology) string {
	var parts []string
	t.eachNode(func(other *Node) {
		if other.ID == nil || n.ID == nil || *other.ID == *n.ID {
			return
		}
		if d, ok := n.Distances[*other.ID]; ok {
			parts = append(parts, fmt.Sprintf("%d to node %d", d, *other.ID))
		}
	})
	if len(parts) == 0 {
		return ""
	}
	return "distance " + strings.Join(parts, ", ")
}

func (tr *textTree) walk(prefix string, list []branch) {
	for i, b := range list {
		here, under := tr.tee, tr.bar
		if i == len(list)-1 {
			here, under = tr.corner, tr.gap
		}
		b.prefix = prefix + here
		tr.lines = append(tr.lines, b.line)
		tr.walk(prefix+under, b.below)
	}
}

// write aligns the devices' columns.
func (tr *textTree) write(out io.Writer) {
	var widths []int
	for _, l := range tr.lines {
		if !l.device {
			continue
		}
		for i, cell := range append([]string{l.prefix + l.text}, l.columns...) {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, l := range tr.lines {
		if !l.device {
			fmt.Fprintln(out, l.prefix+l.text)
			continue
		}
		var row strings.Builder
		for i, cell := range append([]string{l.prefix + l.text}, l.columns...) {
			if widths[i] == 0 {
				continue
			}
			row.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		fmt.Fprintln(out, strings.TrimRight(row.String(), " "))
	}
}

// plugged lists the pods that have something of a device plugin.
func (tr *textTree) plugged(out io.Writer, t *Topology) {
	head := "\npods of device plugins"
	for _, c := range t.Claims {
		if c.Resource == "" {
			continue
		}
		if head != "" {
			fmt.Fprintln(out, head)
			head = ""
		}
		fmt.Fprintf(out, "  [%s] %s%s%s%sholds %s\n", c.Key, printable.Text(c.Namespace+"/"+c.Name), tr.separator, printable.Text(c.Resource), tr.separator, printable.Text(strings.Join(c.Devices, ", ")))
	}
}

// footer lists the claims with their pods, the room for more, and the notes.
func (tr *textTree) footer(out io.Writer, t *Topology, o TextOptions) {
	head := "\nclaims"
	for _, c := range t.Claims {
		if c.Resource != "" {
			continue
		}
		if head != "" {
			fmt.Fprintln(out, head)
			head = ""
		}
		pods := "no pod"
		if len(c.Pods) > 0 {
			names := slices.Clone(c.Pods)
			for i := range names {
				names[i] = printable.Text(names[i])
			}
			pods = "pod " + strings.Join(names, ", ")
		}
		fmt.Fprintf(out, "  [%s] %s%s%s%sholds %s\n", c.Key, printable.Text(c.Namespace+"/"+c.Name), tr.separator, pods, tr.separator, printable.Text(strings.Join(c.Devices, ", ")))
	}
	tr.plugged(out, t)
	if room := t.Capacity.Text(t.HoldersKnown); room != "" {
		fmt.Fprintln(out, "\nroom for "+room)
	}
	if stranded := t.Capacity.StrandedText(); stranded != "" {
		fmt.Fprintln(out, "stranded: "+stranded)
	}
	if len(t.Notes) > 0 {
		fmt.Fprintln(out)
	}
	for _, n := range t.Notes {
		mark := "· "
		if o.ASCII {
			mark = "- "
		}
		fmt.Fprintln(out, mark+printable.Text(n))
	}
}
