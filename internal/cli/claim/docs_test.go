// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/cli/clitest"
)

const page = "network.md"

// What the documentation says render prints, it prints.
func TestDocumentedRendering(t *testing.T) {
	out, err := run(t, docstest.Get(t, page, "manifest", "layers").Text, "render", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	clitest.Documented(t, page, "output", "layers", out)
}

// What the documentation shows to be applied has nothing to find fault with.
func TestDocumentedManifests(t *testing.T) {
	for _, page := range []string{page, "cpu.md", "gpu.md", "rdma.md"} {
		for _, b := range docstest.Blocks(t, page) {
			if b.Kind != "manifest" {
				continue
			}
			out, err := run(t, b.Text, "lint", "-f", "-")
			want := " checked: 0 errors, 0 warnings"
			if slices.Contains(b.Marks, "warned") {
				want = " checked: 0 errors, "
			}
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%s, manifest %s: %v\n%s", page, b.Name, err, out)
			}
		}
	}
}
