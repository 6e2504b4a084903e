// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"strings"

	"plumbline.dev/plumbline/internal/printable"
)

// maxNodesNamed is how many nodes of a group the text names.
const maxNodesNamed = 5

// Text writes a report for people.
func (r *Report) Text(w io.Writer) error {
	t := &text{}
	t.line(0, "%s %s", r.Subject, r.headline())
	for _, f := range r.Findings {
		where := f.Object
		if f.Field != "" {
			where += " " + f.Field
		}
		word := "wrong"
		if f.Cause == ExtendedResource {
			word = "beware" // it works, only not as one may think
		}
		t.line(0, "%s: %s: %s", word, where, f.Message)
	}
	for _, p := range r.Allocation {
		t.line(1, "%s has %s/%s of pool %s", p.Request, p.Driver, p.Device, p.Pool)
	}
	for i := range r.Groups {
		t.group(&r.Groups[i])
	}
	for _, n := range r.Notes {
		t.line(0, "note: %s", n)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func (r *Report) headline() string {
	count := func(verdict string) int {
		n := 0
		for _, g := range r.Groups {
			if g.Verdict == verdict {
				n += len(g.Nodes)
			}
		}
		return n
	}
	nodes := "1 node"
	if r.Nodes != 1 {
		nodes = fmt.Sprintf("%d nodes", r.Nodes)
	}
	where := fmt.Sprintf("%s (%s)", nodes, r.Source)
	switch r.Verdict {
	case Fits:
		return fmt.Sprintf("fits on %d of %s", count(Fits), where)
	case Aborts:
		return fmt.Sprintf("stops the scheduler with an error, so no node will do: %d of %s", count(Aborts), where)
	case Allocated:
		if len(r.Allocation) == 0 {
			return "asks for no devices by a claim"
		}
		return "is allocated"
	case Unknown:
		return "may fit or not: of " + where + " not all could be judged"
	}
	if len(r.Groups) == 0 {
		return "does not fit"
	}
	if r.Nodes == 1 {
		return fmt.Sprintf("does not fit on the one node asked about (%s)", r.Source)
	}
	return "does not fit on any of " + where
}

type text struct{ strings.Builder }

// line writes a line. Names and values come from whoever wrote the objects, so
// nothing in them may move the cursor.
func (t *text) line(depth int, format string, args ...any) {
	t.WriteString(strings.Repeat("  ", depth))
	t.WriteString(printable.Text(fmt.Sprintf(format, args...)))
	t.WriteByte('\n')
}

func (t *text) group(g *Group) {
	t.line(0, "")
	t.line(0, "%s: %s", nodeNames(g.Nodes), g.headline())
	if g.Message != "" && g.Verdict != Excluded {
		t.line(1, "%s", g.Message)
	}
	for _, d := range g.Details {
		t.line(2, "%s", d)
	}
	if len(g.Conflict) > 0 {
		what := "conflict"
		if g.Smallest {
			what = "smallest conflict"
		}
		t.line(1, "%s: %s", what, strings.Join(g.Conflict, ", "))
	}
	if g.ExceedsBudget {
		t.line(1, "beware: the scheduler tries more than %d devices here before it knows, and gives up on all nodes after 10 s;", searchBudget)
		t.line(1, "write the requests of a pair next to each other, or ask by count with one constraint")
	}
	for i, p := range g.Placed {
		if i == 0 {
			t.line(1, "for example on %s:", g.Nodes[0])
		}
		t.line(2, "%s: %s/%s", p.Request, p.Driver, p.Device)
	}
	if len(g.Fixes) > 0 {
		t.line(1, "what helps, each tried:")
		for _, f := range g.Fixes {
			t.line(2, "- %s", f.Text)
		}
	}
}

func (g *Group) headline() string {
	switch {
	case g.Verdict == FitsNot && g.First != "":
		return fmt.Sprintf("does not fit; %s cannot be met", g.First)
	case g.Verdict == Excluded:
		return g.Message
	case g.Verdict == Aborts:
		return "stops the scheduler with an error"
	}
	return g.Verdict
}

func nodeNames(names []string) string {
	if len(names) <= maxNodesNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more nodes", strings.Join(names[:maxNodesNamed-1], ", "), len(names)-maxNodesNamed+1)
}
