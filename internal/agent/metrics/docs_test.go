// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the table in docs/metrics.md")

const page = "../../../docs/metrics.md"

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
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs from the definitions (make generate):\n%s", page, diff)
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
