// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/plural"
)

// writeHost prints a line for each finding, and below what would be right.
func writeHost(out io.Writer, report Report, all bool) error {
	of := []Node{{Node: report.Node, Findings: report.Findings}}
	if err := writeFindings(out, of, all, false); err != nil {
		return err
	}
	if err := writeAdvice(out, of, false); err != nil {
		return err
	}
	n := doctor.Count(report.Findings)
	_, err := fmt.Fprintf(out, "%s: %d ok, %d wrong, %d unknown\n", report.Node, n[hosts.OK], n[hosts.Wrong], n[hosts.Unknown])
	return err
}

// writeCluster prints the same of each node, and then what there is to say of all.
func writeCluster(out io.Writer, c Cluster, all bool) error {
	if err := writeFindings(out, c.Nodes, all, true); err != nil {
		return err
	}
	if err := writeAdvice(out, c.Nodes, true); err != nil {
		return err
	}
	if err := writeGroups(out, c); err != nil {
		return err
	}
	var ok, wrong, unknown, ready, without int
	for _, n := range c.Nodes {
		ok, wrong, unknown = ok+n.OK, wrong+n.Wrong, unknown+n.Unknown
		switch {
		case n.Changed == nil:
			without++
		case n.Wrong == 0:
			ready++
		}
	}
	_, err := fmt.Fprintf(out, "%s: %d with nothing wrong, %d without a report of their own; %d ok, %d wrong, %d unknown\n",
		plural.Count(len(c.Nodes), "node", "nodes"), ready, without, ok, wrong, unknown)
	return err
}

// writeFindings prints a line for each finding that is not OK, or for all.
func writeFindings(out io.Writer, nodes []Node, all, named bool) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	name := func(node string) string {
		if named {
			return node + "\t"
		}
		return ""
	}
	fmt.Fprintln(t, name("NODE")+"CHECK\tVERDICT\tSEVERITY\tOF\tFOUND\tIN")
	lines := 0
	for _, n := range nodes {
		for _, f := range n.Findings {
			if f.Verdict == hosts.OK && !all {
				continue
			}
			lines++
			fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\t%s\t%s\n", name(n.Node), f.Check, f.Verdict, f.Severity, dash(f.Subject), f.Found, f.Source)
		}
	}
	if lines == 0 {
		return nil
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}

// writeAdvice prints what would be right and how to get there, once for all nodes of
// which the same is to be said.
func writeAdvice(out io.Writer, nodes []Node, named bool) error {
	type advice struct{ check, want, fix string }
	var order []advice
	of := map[advice][]string{}
	for _, n := range nodes {
		for _, f := range n.Findings {
			a := advice{f.Check, f.Want, f.Fix}
			if f.Verdict == hosts.OK || f.Want == "" {
				continue
			}
			if of[a] == nil {
				order = append(order, a)
			}
			if names := of[a]; len(names) == 0 || names[len(names)-1] != n.Node {
				of[a] = append(names, n.Node)
			}
		}
	}
	for _, a := range order {
		fmt.Fprintf(out, "%s: want %s\n  %s\n", a.check, a.want, a.fix)
		if named {
			fmt.Fprintf(out, "  on %s\n", some(of[a]))
		}
	}
	if len(order) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(out)
	return err
}

// writeGroups prints where no value is that of most nodes of a kind, which nodes had
// nothing to be compared with, and reports of nodes that are gone.
func writeGroups(out io.Writer, c Cluster) error {
	lines := 0
	var alone []string
	for _, g := range c.Groups {
		if len(g.Hosts) == 1 {
			alone = append(alone, g.Hosts...)
		}
		for _, u := range g.Undecided {
			lines++
			what := strings.TrimSpace(u.Subject + " " + u.Field)
			var shares []string
			for _, s := range u.Values {
				shares = append(shares, fmt.Sprintf("%s on %s", s.Value, some(s.Hosts)))
			}
			fmt.Fprintf(out, "%s: %s, %s: no majority of %s: %s\n", doctor.CheckAlike, g, plural.Count(len(g.Hosts), "node", "nodes"), what, strings.Join(shares, "; "))
		}
	}
	if len(alone) > 0 {
		lines++
		fmt.Fprintf(out, "%s: compared with no other, as there is none of its kind: %s\n", doctor.CheckAlike, some(alone))
	}
	for _, name := range c.Gone {
		lines++
		fmt.Fprintf(out, "HostReport %s is of a node that is gone, and does not count: kubectl delete hostreport %s\n", name, name)
	}
	if lines == 0 {
		return nil
	}
	_, err := fmt.Fprintln(out)
	return err
}

// someNames is how many names stand in a line; -o json has them all.
const someNames = 8

func some(names []string) string {
	if more := len(names) - someNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:someNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

func dash(text string) string { return cmp.Or(text, "-") }
