// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/golden"
)

// Stop is one stop of a page that follows something through the code, and what is
// to be seen there.
type Stop struct{ Name, Text string }

// quoted is a stop on a page: a comment that names it, then a fenced block.
//
//	<!-- stop: journal -->
var quoted = regexp.MustCompile("(?s)(<!-- stop: ([a-z]+) -->\n```[a-z]*\n)(.*?)(```\n)")

// Follow holds a page to the stops of a replay: it quotes each of them, and no
// other. With -update it is rewritten.
func Follow(t testing.TB, page string, stops []Stop) {
	t.Helper()
	old := Page(t, page)
	seen := map[string]bool{}
	replayed := quoted.ReplaceAllStringFunc(old, func(block string) string {
		parts := quoted.FindStringSubmatch(block)
		seen[parts[2]] = true
		for _, s := range stops {
			if s.Name == parts[2] {
				return parts[1] + s.Text + parts[4]
			}
		}
		t.Errorf("docs/%s quotes a stop %q, which the replay does not have", page, parts[2])
		return block
	})
	for _, s := range stops {
		if !seen[s.Name] {
			t.Errorf("docs/%s does not quote stop %s", page, s.Name)
		}
	}
	if golden.Update() {
		if err := os.WriteFile(path(t, page), []byte(replayed), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(old, replayed); diff != "" {
		t.Errorf("docs/%s (-) and the replay (+); run with -update if the change is meant:\n%s", page, diff)
	}
}
