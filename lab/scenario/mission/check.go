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

func (r Row) check() (wrong []error) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if r.ID == "" || r.At == "" || r.Line < 1 {
		say("want id, at and line")
	}
	kinds := 0
	for _, one := range []string{r.Command, r.File, r.Says} {
		if one != "" {
			kinds++
		}
	}
	if kinds == 0 || r.Command != "" && (r.File != "" || r.Check != "") {
		say("want a command, or a file or what the document says, with a check")
	}
	if r.Judge == nil && r.Deviation == nil && r.typed() != "" {
		say("the command is not judged: want judge")
	}
	if r.Judge == nil && r.Deviation == nil && r.File == "" {
		say("nothing is judged: want judge, or a deviation")
	}
	wrong = append(wrong, r.Step.check(r.typed())...)
	if r.Deviation != nil {
		wrong = append(wrong, r.Deviation.check(r)...)
	} else if leavesLab.MatchString(r.Command) {
		say("%q leaves the lab: want a deviation", leavesLab.FindString(r.Command))
	}
	return wrong
}

func (s Step) check(command string) (wrong []error) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if where, _, _ := strings.Cut(s.In, " "); s.In != "" && s.In != "node" && where != "pod" {
		say("in: %q: want node or pod NAME", s.In)
	}
	for _, word := range slices.Sorted(maps.Keys(s.Fill)) {
		if !strings.Contains(command, word) {
			say("fill: %q is not in the command", word)
		}
	}
	if s.Judge != nil {
		if err := s.Judge.check(s.Prints); err != nil {
			say("judge: %w", err)
		}
	}
	return wrong
}

func (v *Deviation) check(r Row) (wrong []error) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	why, known := reasonOf(v.Reason)
	if !known {
		say("deviation: reason %q: want %s", v.Reason, reasonNames())
	}
	if strings.TrimSpace(v.Because) == "" {
		say("deviation: want because, a sentence")
	}
	if (v.Overlay == "") != (len(v.Files) == 0) {
		say("deviation: overlay and files go together")
	}
	if len(v.Files) > 0 && r.File != "" && len(v.Files[r.File]) == 0 {
		say("deviation: files: want what %s holds here", r.File)
	}
	if v.Judge == nil && v.Command != "" {
		say("deviation: the command is not judged: want judge")
	}
	if v.Command == r.typed() && v.Command != "" {
		say("deviation: command is the printed one")
	}
	command := v.Command
	if command == "" {
		command = r.typed()
	}
	if !r.left() && leavesLab.MatchString(command) {
		say("deviation: %q leaves the lab: want another command, or nothing judged", leavesLab.FindString(command))
	}
	// What is tried as printed must be harmless, and be judged to be known to differ.
	if known && why.typed && leavesLab.MatchString(r.Command) {
		say("deviation: reason %s has the printed command tried, and %q leaves the lab", v.Reason, leavesLab.FindString(r.Command))
	}
	for _, err := range v.Step.check(command) {
		say("deviation: %w", err)
	}
	return wrong
}

func reasonNames() string {
	var names []string
	for _, r := range reasons {
		names = append(names, r.name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
