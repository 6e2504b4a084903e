// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
	"plumbline.dev/plumbline/internal/topoview"
)

// Report is the answer for one subject.
type Report struct {
	// Subject is such as "ResourceClaimTemplate default/train".
	Subject string `json:"subject"`
	// Pods is how many fit on all nodes together.
	Pods  int    `json:"pods"`
	Nodes []Node `json:"nodes"`
}

// Add adds a node to the report.
func (r *Report) Add(n *Node) {
	r.Nodes = append(r.Nodes, *n)
	r.Pods += n.Pods * n.Count
}

// Text writes a line for each node, then why there are no more.
func Text(w io.Writer, reports []Report) error {
	out := bufio.NewWriter(w)
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s\n\n", printable.Text(r.Subject))
		table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "NODE\tNODES\tFITS\tLEFT FREE\tSTRANDED")
		for _, n := range r.Nodes {
			fits := strconv.Itoa(n.Pods) + " times"
			switch {
			case n.AtLimit:
				fits = "at least " + fits
			case n.Pods == 1:
				fits = "once"
			case n.Pods == 0:
				fits = "no"
			}
			if n.Count > 1 && n.Pods > 0 {
				fits += " each"
			}
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", printable.Text(n.Name), n.Count, fits, left(&n.Room), stranded(&n))
		}
		table.Flush() //nolint:errcheck // out keeps the error until its own Flush
		fmt.Fprintf(out, "\n%s in all\n", plural.Count(r.Pods, "pod", "pods"))
		for _, n := range r.Nodes {
			if n.Why != "" {
				more := "no more on "
				if n.Pods == 0 {
					more = "not on "
				}
				fmt.Fprintf(out, "· %s%s: %s\n", more, printable.Text(n.Name), printable.Text(n.Why))
				for _, line := range n.Details {
					fmt.Fprintf(out, "    %s\n", printable.Text(line))
				}
			}
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write simulation: %w", err)
	}
	return nil
}

// left is what is free when the node is full.
func left(r *topoview.FreeCapacity) string {
	var parts []string
	for _, one := range []struct {
		count     topoview.Count
		one, many string
	}{{r.GPUs, "GPU", "GPUs"}, {r.NICs, "NIC", "NICs"}, {r.CPUs, "CPU", "CPUs"}} {
		if one.count.Total > 0 {
			parts = append(parts, plural.Count(one.count.Free, one.one, one.many))
		}
	}
	return strings.Join(parts, ", ")
}

func stranded(n *Node) string {
	if len(n.Stranded) == 0 {
		return "none"
	}
	return printable.Text(strings.Join(n.Stranded, ", "))
}
