// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"plumbline.dev/plumbline/internal/topoview"
)

// Text writes a line for each node, with "free/total" of each thing, and the
// room of all. wide adds who holds what.
func Text(w io.Writer, c *Cluster, wide bool) error {
	out := bufio.NewWriter(w)
	c.nodes(out)
	if room := c.Room.Text(c.HoldersKnown); room != "" {
		fmt.Fprintf(out, "\n%s: room for %s\n", topoview.Count(len(c.Nodes), "node", "nodes"), room)
	}
	if wide {
		c.stranded(out)
		c.claims(out)
	}
	if notes := c.allNotes(); len(notes) > 0 {
		fmt.Fprintln(out)
		for _, n := range notes {
			fmt.Fprintln(out, "· "+topoview.Printable(n))
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write overview: %w", err)
	}
	return nil
}

func (c *Cluster) nodes(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "NODE\tGPUS\tNICS\tCPUS\tPAIRS")
	for _, g := range c.Room.Groups {
		fmt.Fprintf(table, "\tGROUPS OF %d", g.Size)
	}
	fmt.Fprintln(table, "\tSTRANDED\tCLAIMS")
	for i := range c.Nodes {
		n := &c.Nodes[i]
		row := []string{topoview.Printable(n.Name), cell(n.Room.GPUs), cell(n.Room.NICs), cell(n.Room.CPUs), cell(n.Room.Pairs)}
		for _, g := range c.Room.Groups {
			row = append(row, cell(groupOf(&n.Room, g.Size)))
		}
		row = append(row, strconv.Itoa(len(n.Room.Stranded)), strconv.Itoa(n.Claims))
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush() //nolint:errcheck // out keeps the error until its own Flush
}

func groupOf(r *topoview.Room, size int) topoview.Tally {
	for _, g := range r.Groups {
		if g.Size == size {
			return g.Tally
		}
	}
	return topoview.Tally{}
}

// cell is "3/8", or "-" for what the node does not have.
func cell(t topoview.Tally) string {
	if t.Total == 0 {
		return "-"
	}
	return strconv.Itoa(t.Free) + "/" + strconv.Itoa(t.Total)
}

func (c *Cluster) stranded(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	head := "\nSTRANDED\tNODE\tWHY\n"
	for _, n := range c.Nodes {
		for _, d := range n.Devices {
			if d.Stranded != "" {
				fmt.Fprintf(table, "%s%s\t%s\t%s\n", head, topoview.Printable(d.Name), topoview.Printable(n.Name), topoview.Printable(d.Stranded))
				head = ""
			}
		}
	}
	table.Flush() //nolint:errcheck // out keeps the error until its own Flush
}

func (c *Cluster) claims(out io.Writer) {
	if len(c.Claims) == 0 {
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\nCLAIM\tPODS\tNODE\tDEVICES")
	for _, claim := range c.Claims {
		pods := "<none>"
		if len(claim.Pods) > 0 {
			pods = strings.Join(claim.Pods, ",")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", topoview.Printable(claim.Namespace+"/"+claim.Name), topoview.Printable(pods),
			topoview.Printable(claim.Node), topoview.Printable(strings.Join(claim.Devices, ", ")))
	}
	table.Flush() //nolint:errcheck // out keeps the error until its own Flush
}

// allNotes are those of the cluster, then those of its nodes.
func (c *Cluster) allNotes() []string {
	notes := append([]string{}, c.Notes...)
	for _, n := range c.Nodes {
		for _, note := range n.Notes {
			notes = append(notes, n.Name+": "+note)
		}
	}
	return notes
}
