// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The pages promise three commands each, and the run types what it finds there.
func TestCommandsOfThePages(t *testing.T) {
	for _, tt := range []struct {
		page, heading string
		want          []string
	}{
		{"../../../README.md", "## Install it on a cluster", []string{
			"make image PUSH=registry.example.com/plumbline",
			"make release IMAGE=registry.example.com/plumbline",
			"helm install plumbline out/release/plumbline-*.tgz -n plumbline-system --create-namespace",
		}},
		{"../../../docs/install.md", "## Leaving", []string{
			"helm uninstall plumbline -n plumbline-system",
			"kubectl delete deviceclasses -l app.kubernetes.io/name=plumbline",
			"kubectl delete namespace plumbline-system",
		}},
	} {
		got, err := commands(tt.page, tt.heading)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.page, diff)
		}
	}
}

func TestCommandsOfNoPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Page\n\n## Empty\n\nWords.\n\n## Next\n\n    make\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := commands(page, "## Empty"); err != nil || len(got) > 0 {
		t.Errorf("commands of a heading without: %q, %v", got, err)
	}
	if _, err := commands(page, "## Absent"); err == nil {
		t.Error("no error for a heading that is not there")
	}
}

func TestDifference(t *testing.T) {
	before := []string{"a", "b", "c"}
	if got := difference(before, before); len(got) > 0 {
		t.Errorf("of the same: %q", got)
	}
	if diff := cmp.Diff([]string{"+ d", "- b"}, difference(before, []string{"a", "c", "d"})); diff != "" {
		t.Error(diff)
	}
}
