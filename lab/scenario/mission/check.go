// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// reason is why a row may differ.
type reason struct {
	name, means string
	// typed says that the printed command is tried all the same: it does no harm, and a
	// deviation that is none shows.
	typed bool
}

var reasons = []reason{
	{"cloud-cli", "needs an account of a cloud and its command line tool", false},
	{"internet", "fetches a program, an image, a chart or a manifest from the internet", false},
	{"page", "the page has lost a part of it, or names a file without printing it", false},
	{"component", "another component does it here", true},
	{"image", "the lab's image stands in for one that cannot be fetched", true},
	{"hardware", "needs a device, or its driver, that is not here", true},
	{"machine", "is of the page's machines: how many, how large, what is called how", true},
	{"version", "a newer release answers in other words", true},
	{"figure", "is a figure that only hardware gives", true},
}

func reasonOf(name string) (reason, bool) {
	i := slices.IndexFunc(reasons, func(r reason) bool { return r.name == name })
	if i < 0 {
		return reason{}, false
	}
	return reasons[i], true
}

// leavesLab finds commands that would reach beyond the lab, or change the host: they are
// never run as printed.
var leavesLab = regexp.MustCompile(`\b(gcloud|sudo|apt-get)\b|https?://|oci://|git clone`)

// check finds everything that is wrong with a table.
func (t *Table) check() error {
	var wrong []error
	machines := map[string]bool{}
	for _, m := range t.Machines {
		if m.Name == "" || m.Is == "" || machines[m.Name] {
			wrong = append(wrong, fmt.Errorf("machine %q: want a name that no other has, and what it is", m.Name))
		}
		machines[m.Name] = true
	}
	seen := map[string]bool{}
	for _, d := range t.Documents {
		if d.Name == "" || d.Title == "" || !machines[d.Machine] {
			wrong = append(wrong, fmt.Errorf("document %q: want a name, a title and a machine of the table, got machine %q", d.Name, d.Machine))
		}
		for _, r := range d.Rows {
			if seen[r.ID] {
				wrong = append(wrong, fmt.Errorf("document %s, row %s: another row has this id", d.Name, r.ID))
			}
			seen[r.ID] = true
			if r.Machine != "" && !machines[r.Machine] {
				wrong = append(wrong, fmt.Errorf("document %s, row %s: machine %q is none of the table's", d.Name, r.ID, r.Machine))
			}
			for _, err := range r.check() {
				wrong = append(wrong, fmt.Errorf("document %s, row %s: %w", d.Name, r.ID, err))
			}
		}
	}
	switch n, _ := t.declared(); {
	case n > t.Deviations:
		wrong = append(wrong, fmt.Errorf("deviations: %d rows differ, and the table's head allows %d", n, t.Deviations))
	case n < t.Deviations:
		wrong = append(wrong, fmt.Errorf("deviations: %d rows differ, fewer than the %d of the table's head: lower it", n, t.Deviations))
	}
	return errors.Join(wrong...)
}

// problems gathers what is wrong.
type problems []error

func (p *problems) when(wrong bool, format string, args ...any) {
	if wrong {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

func (r Row) check() problems {
	var p problems
	p.when(r.ID == "" || r.At == "" || r.Line < 1, "want id, at and line")
	p.when(!r.hasOneKind(), "want a command, or a file or what the document says, with a check")
	p.when(r.Judge == nil && r.Deviation == nil && (r.typed() != "" || r.File == ""), "the command is not judged: want judge")
	// The pages have blanks at which no shell splits.
	p.when(strings.ContainsRune(r.typed(), '\u00a0'), "the command has a no-break space: want the space that a reader types")
	p = append(p, r.Step.check(r.typed())...)
	if r.Deviation != nil {
		return append(p, r.Deviation.check(r)...)
	}
	p.when(leavesLab.MatchString(r.Command), "%q leaves the lab: want a deviation", leavesLab.FindString(r.Command))
	return p
}

// hasOneKind says whether a row is a command, a manifest, or a sentence alone.
func (r Row) hasOneKind() bool {
	if r.Command != "" {
		return r.File == "" && r.Check == ""
	}
	return r.File != "" || r.Says != ""
}

func (s Step) check(command string) problems {
	var p problems
	where, pod, _ := strings.Cut(s.In, " ")
	p.when(s.In != "" && s.In != "node" && (where != "pod" || pod == ""), "in: %q: want node or pod NAME", s.In)
	for _, word := range slices.Sorted(maps.Keys(s.Fill)) {
		p.when(!strings.Contains(command, word), "fill: %q is not in the command", word)
	}
	if s.Judge != nil {
		for _, err := range s.Judge.check(s.Prints) {
			p.when(true, "judge: %w", err)
		}
	}
	return p
}

func (v *Deviation) check(r Row) problems {
	var p problems
	why, known := reasonOf(v.Reason)
	p.when(!known, "deviation: reason %q: want %s", v.Reason, reasonNames())
	p.when(strings.TrimSpace(v.Because) == "", "deviation: want because, a sentence")
	p.when((v.Overlay == "") != (len(v.Files) == 0), "deviation: overlay and files go together")
	p.when(len(v.Files) > 0 && r.File != "" && len(v.Files[r.File]) == 0, "deviation: files: want what %s holds here", r.File)
	// What is tried as printed must be harmless.
	p.when(why.typed && leavesLab.MatchString(r.Command), "deviation: reason %s has the printed command tried, and %q leaves the lab",
		v.Reason, leavesLab.FindString(r.Command))
	return append(p, v.checkCommand(r)...)
}

// checkCommand looks at what is run for a row that differs.
func (v *Deviation) checkCommand(r Row) problems {
	var p problems
	p.when(v.Judge == nil && v.Command != "", "deviation: the command is not judged: want judge")
	p.when(v.Command == "" && (v.In != "" || len(v.Fill) > 0), "deviation: in and fill are those of a command, and it has none")
	p.when(v.Command != "" && v.Command == r.typed(), "deviation: command is the printed one")
	command := v.Command
	if command == "" {
		command = r.typed()
	}
	p.when(!r.left() && leavesLab.MatchString(command), "deviation: %q leaves the lab: want another command, or nothing judged",
		leavesLab.FindString(command))
	for _, err := range v.Step.check(command) {
		p.when(true, "deviation: %w", err)
	}
	return p
}

func reasonNames() string {
	var names []string
	for _, r := range reasons {
		names = append(names, r.name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
