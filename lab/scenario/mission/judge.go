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

	"plumbline.dev/plumbline/lab/scenario"
)

// Judge says how what a command prints is compared with what the document prints.
type Judge struct {
	// By is one of the ways that there are.
	By string `json:"by"`
	// Want are regular expressions, for pattern and fails.
	Want []string `json:"want,omitempty"`
	// Own are words of the printed text that are each run's own, such as an age or the name
	// of a chosen device, with what such a word looks like.
	Own map[string]string `json:"own,omitempty"`
}

// way is a way to judge.
type way struct {
	name, means string
	// printed says that it needs the document's text, wants that it needs expressions.
	printed, wants bool
	judge          func(*Judge, string, scenario.Answer) error
}

var ways = []way{
	{"succeeds", "it ends well", false, false, (*Judge).succeeds},
	{"exact", "it prints these lines and no others", true, false, (*Judge).exact},
	{"lines", "these lines are among what it prints, in this order", true, false, (*Judge).lines},
	{"numbers", "these lines are among what it prints, in this order, with numbers where these have numbers", true, false, (*Judge).numbers},
	{"fields", "these fields are in the objects that it prints", true, false, (*Judge).fields},
	{"pattern", "what it prints has these", false, true, (*Judge).pattern},
	{"fails", "it fails, and says", false, true, (*Judge).fails},
}

func wayOf(name string) (way, bool) {
	i := slices.IndexFunc(ways, func(w way) bool { return w.name == name })
	if i < 0 {
		return way{}, false
	}
	return ways[i], true
}

func (j *Judge) check(prints string) problems {
	var p problems
	w, known := wayOf(j.By)
	if !known {
		p.when(true, "by %q: want one of %s", j.By, wayNames())
		return p
	}
	p.when(w.printed && strings.TrimSpace(prints) == "", "by %s: want prints", j.By)
	p.when(w.wants && len(j.Want) == 0, "by %s: want expressions in want", j.By)
	p.when(!w.wants && len(j.Want) > 0, "by %s: takes no want", j.By)
	p.when(!w.printed && len(j.Own) > 0, "by %s: takes no own", j.By)
	for _, want := range j.Want {
		_, err := regexp.Compile(want)
		p.when(err != nil, "want: %w", err)
	}
	for _, word := range slices.Sorted(maps.Keys(j.Own)) {
		_, err := regexp.Compile(j.Own[word])
		p.when(err != nil, "own: %w", err)
		p.when(word == "" || !strings.Contains(prints, word), "own: %q is not printed", word)
	}
	if j.By == "fields" {
		_, err := parseFields(prints)
		p.when(err != nil, "prints: %w", err)
	}
	return p
}

func wayNames() string {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return strings.Join(names, ", ")
}

// differs says in what an answer is not as printed; nil where it is.
func (j *Judge) differs(prints string, a scenario.Answer) error {
	w, known := wayOf(j.By)
	if !known {
		return fmt.Errorf("judge by %q: there is no such way", j.By)
	}
	if j.By != "fails" && a.Code != 0 {
		return errors.New(a.Ending())
	}
	return w.judge(j, prints, a)
}

func (j *Judge) succeeds(string, scenario.Answer) error { return nil }

func (j *Judge) fails(_ string, a scenario.Answer) error {
	if a.Code == 0 {
		return errors.New("it ends well")
	}
	return j.pattern("", scenario.Answer{Out: a.Out + "\n" + a.Complaint})
}

func (j *Judge) pattern(_ string, a scenario.Answer) error {
	for _, want := range j.Want {
		e, err := regexp.Compile("(?m)" + want)
		if err != nil {
			return err
		}
		if !e.MatchString(a.Out) {
			return fmt.Errorf("nothing printed has %q", want)
		}
	}
	return nil
}

func (j *Judge) exact(prints string, a scenario.Answer) error {
	want, got := lines(prints), lines(a.Out)
	for i, line := range want {
		if i >= len(got) {
			return fmt.Errorf("line %q is missing", line)
		}
		if !j.expression(line, false).MatchString(got[i]) {
			return fmt.Errorf("line %q, printed %q", got[i], line)
		}
	}
	if len(got) > len(want) {
		return fmt.Errorf("line %q is not in the document", got[len(want)])
	}
	return nil
}

func (j *Judge) lines(prints string, a scenario.Answer) error { return j.among(prints, a, false) }

func (j *Judge) numbers(prints string, a scenario.Answer) error { return j.among(prints, a, true) }

// among wants the printed lines in their order, with any others between them.
func (j *Judge) among(prints string, a scenario.Answer, anyNumber bool) error {
	rest := lines(a.Out)
	for _, line := range lines(prints) {
		i := slices.IndexFunc(rest, j.expression(line, anyNumber).MatchString)
		if i < 0 {
			return fmt.Errorf("line %q is missing", line)
		}
		rest = rest[i+1:]
	}
	return nil
}

// lines are those of a text that are not empty, with one space where there are several.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			all = append(all, line)
		}
	}
	return all
}

var number = regexp.MustCompile(`[0-9][0-9.,]*`)

// expression finds a printed line, in which words are each run's own and numbers may be.
func (j *Judge) expression(line string, anyNumber bool) *regexp.Regexp {
	var e strings.Builder
	e.WriteString("^")
	for line != "" {
		word, at := j.firstOwn(line)
		before := line
		if at >= 0 {
			before = line[:at]
		}
		quoted := regexp.QuoteMeta(before)
		if anyNumber {
			quoted = literal(before)
		}
		e.WriteString(quoted)
		if at < 0 {
			break
		}
		e.WriteString("(?:" + j.Own[word] + ")")
		line = line[at+len(word):]
	}
	e.WriteString("$")
	return regexp.MustCompile(e.String()) // check has seen the parts
}

// literal quotes a text, with any number in the place of each.
func literal(text string) string {
	var e strings.Builder
	for {
		at := number.FindStringIndex(text)
		if at == nil {
			return e.String() + regexp.QuoteMeta(text)
		}
		e.WriteString(regexp.QuoteMeta(text[:at[0]]) + `[0-9][0-9.,]*`)
		text = text[at[1]:]
	}
}

// firstOwn is the first of the run's own words in a text, the longest where several begin
// there.
func (j *Judge) firstOwn(text string) (word string, at int) {
	at = -1
	for own := range j.Own {
		i := strings.Index(text, own)
		if i >= 0 && (at < 0 || i < at || i == at && len(own) > len(word)) {
			word, at = own, i
		}
	}
	return word, at
}
