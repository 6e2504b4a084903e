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

const (
	page  = "../../../docs/metrics.md"
	begin = "<!-- table: begin -->\n"
	end   = "<!-- table: end -->\n"
)

// TestPage keeps the table of the documentation equal to the definitions.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: no table between %q and %q", page, begin, end)
	}
	want := table()
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

func table() string {
	var b strings.Builder
	b.WriteString("| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n")
	for _, d := range Definitions() {
		labels := ""
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Kind, labels, d.Help)
	}
	return b.String()
}
