// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/golden"
)

const page = "../../docs/metrics.md"

// TestPage keeps the tables of the documentation equal to the definitions.
func TestPage(t *testing.T) {
	for name, definitions := range map[string][]Definition{"table": Definitions(), "explainer": ExplainerDefinitions()} {
		t.Run(name, func(t *testing.T) { testTable(t, name, definitions) })
	}
}

func testTable(t *testing.T, name string, definitions []Definition) {
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: no table between %q and %q", page, begin, end)
	}
	want := table(definitions)
	if golden.Update() {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs from the definitions (make generate):\n%s", page, diff)
	}
}

// TestPageNamesWhatThereIs: the tables for those who come from elsewhere name
// metrics that there are, with labels that these have.
func TestPageNamesWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]Definition{}
	for _, d := range append(Definitions(), ExplainerDefinitions()...) {
		known[d.Name] = d
	}
	named := regexp.MustCompile("`(plumbline_\\w+)(?:\\{(\\w+)=[^`]*)?`").FindAllStringSubmatch(string(text), -1)
	for _, m := range named {
		d, ok := known[strings.TrimSuffix(m[1], "_count")]
		if !ok {
			t.Errorf("%s names %s, which there is not", page, m[1])
		} else if m[2] != "" && !slices.Contains(d.Labels, m[2]) {
			t.Errorf("%s: %s has no label %s", page, m[1], m[2])
		}
	}
	if others := len(named) - len(known); others < 15 {
		t.Errorf("%d metrics are named beside the tables of them", others)
	}
}

// TestPageNamesWhatComesWithEvents: who sets up alerts must know of which metrics the
// absence says nothing. Those are all counters and histograms with labels, and the gauges
// that have a series for each thing that there is.
func TestPageNamesWhatComesWithEvents(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "<!-- with events: begin -->")
	list, _, closed := strings.Cut(list, "<!-- with events: end -->")
	if !closed {
		t.Fatalf("%s: no list of metrics that come with events", page)
	}
	got := regexp.MustCompile(`plumbline_\w+`).FindAllString(list, -1)
	want := []string{cpusPerClaim.Name, podsWaiting.Name}
	for _, d := range append(Definitions(), ExplainerDefinitions()...) {
		if d.Kind != gauge && len(d.Labels) > 0 {
			want = append(want, d.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", page, diff)
	}
	at, err := New().all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range at {
		if slices.Contains(got, family.GetName()) {
			t.Errorf("%s says that %s comes with an event, and it is there from the start", page, family.GetName())
		}
	}
}

func table(definitions []Definition) string {
	var b strings.Builder
	b.WriteString("| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n")
	for _, d := range definitions {
		labels := ""
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Kind, labels, d.Help)
	}
	return b.String()
}
