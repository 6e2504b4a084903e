// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"fmt"
	"strings"
)

// pageHead begins docs/mission.md.
const pageHead = `# The mission's documents, typed

Five documents say what plumbline is for: three pages of DRANET's, a tutorial of GKE's and an
article of NVIDIA's. ` + "`make mission`" + ` boots the lab's machines and types every command that they
print, in a real shell with ` + "`kubectl`" + `, ` + "`helm`" + ` and ` + "`plumbline`" + `, saves their manifests by the names
that they give them, and compares what comes out with what they print. It needs root for one
of its machines; ` + "`bin/plumblab mission --only a3`" + ` runs the rows of one.

A row differs from its document only where it declares so, for a reason of those below. A
difference that is not declared fails the run; so does a declared one that is none any more. How
many there may be stands in the head of the table, and may only fall.

This page is made of that table, [examples/mission.yaml](../examples/mission.yaml), by ` + "`make generate`" + `,
and has of each command its first line.
`

// Page is docs/mission.md.
func (t *Table) Page() string {
	var p strings.Builder
	p.WriteString(pageHead)
	all := t.all()
	n, byReason := t.declared()
	fmt.Fprintf(&p, "\n## In numbers\n\n| Document | Rows | As printed | Otherwise | Of these not run |\n|---|---|---|---|---|\n")
	for _, d := range t.Documents {
		one := Table{Documents: []Document{d}}
		differ, _ := one.declared()
		fmt.Fprintf(&p, "| [%s](#%s) | %d | %d | %d | %d |\n", d.Name, anchor(d.Title), len(d.Rows), len(d.Rows)-differ, differ, countLeft(d.Rows))
	}
	fmt.Fprintf(&p, "| together | %d | %d | %d | %d |\n", len(all), len(all)-n, n, countLeft(all))
	fmt.Fprintf(&p, "\n| Reason | Whatever is declared so | Rows |\n|---|---|---|\n")
	for _, r := range reasons {
		if byReason[r.name] > 0 {
			fmt.Fprintf(&p, "| %s | %s | %d |\n", r.name, r.means, byReason[r.name])
		}
	}
	fmt.Fprintf(&p, "\n| Judged by | Which wants |\n|---|---|\n")
	for _, w := range ways {
		fmt.Fprintf(&p, "| %s | %s |\n", w.name, w.means)
	}
	fmt.Fprintf(&p, "\n| Machine | Is |\n|---|---|\n")
	for _, m := range t.Machines {
		fmt.Fprintf(&p, "| %s | %s |\n", m.Name, m.Is)
	}
	for _, d := range t.Documents {
		d.write(&p)
	}
	return p.String()
}

func countLeft(rows []Row) (n int) {
	for _, r := range rows {
		if r.left() {
			n++
		}
	}
	return n
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

func (d Document) write(p *strings.Builder) {
	fmt.Fprintf(p, "\n## %s\n\n[%s](../examples/%s), on machine %s where a row names no other.\n\n", d.Title, d.Name, d.Name, d.Machine)
	fmt.Fprintf(p, "| Line | In the document | Judged by | Here |\n|---|---|---|---|\n")
	heading := ""
	for _, r := range d.Rows {
		if r.At != heading {
			heading = r.At
			fmt.Fprintf(p, "| | **%s** | | |\n", cell(heading))
		}
		judged := ""
		if r.Judge != nil {
			judged = r.Judge.By
		}
		fmt.Fprintf(p, "| %d | %s | %s | %s |\n", r.Line, r.shown(), judged, r.differs())
	}
}

// shown is what the document has: a command, a manifest or a sentence.
func (r Row) shown() string {
	switch {
	case r.Command != "":
		return code(r.Command)
	case r.File != "":
		return "manifest " + code(r.File)
	}
	return cell(firstLine(r.Says))
}

// differs is what is otherwise here, and what is run then.
func (r Row) differs() string {
	v := r.Deviation
	if v == nil {
		return r.onOther() + "as printed"
	}
	text := r.onOther() + "**" + v.Reason + "**: " + cell(strings.TrimSpace(v.Because))
	switch {
	case r.left():
		text += " Not run."
	case v.Command != "":
		text += " " + code(v.Command)
	}
	if v.Judge != nil && v.Judge.By == "fails" {
		text += " It fails."
	}
	return text
}

// onOther says that a row is not on its document's machine.
func (r Row) onOther() string {
	if r.Machine == "" {
		return ""
	}
	return "on " + r.Machine + ", "
}

// code is the first line of a command.
func code(command string) string { return "`" + cell(firstLine(command)) + "`" }

func firstLine(text string) string {
	first, more, cut := strings.Cut(strings.TrimSpace(text), "\n")
	if cut && strings.TrimSpace(more) != "" {
		first = strings.TrimSuffix(strings.TrimSpace(first), "\\") + " …"
	}
	return strings.Join(strings.Fields(first), " ")
}

// cell is a text in a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
