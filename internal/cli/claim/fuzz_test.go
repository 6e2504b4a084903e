// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"io"
	"os"
	"strings"
	"testing"
)

// Whatever stands in a manifest, it is checked and shown, or refused.
func FuzzManifest(f *testing.F) {
	for _, name := range []string{"testdata/broken.yaml", "testdata/layers.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for object := range strings.SplitSeq(string(text), "---\n") {
			f.Add(object)
		}
	}
	f.Add("apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nspec: {devices: {requests: [{name: a, selectors: [{}]}], config: [{}], constraints: [{}]}}")
	f.Fuzz(func(t *testing.T, text string) {
		in, err := readFiles([]string{"-"}, false, strings.NewReader(text))
		if err != nil {
			return
		}
		if err := lint(in).text(io.Discard); err != nil {
			t.Error(err)
		}
		all, err := render(in)
		if err != nil {
			return
		}
		if err := writeText(io.Discard, all); err != nil {
			t.Error(err)
		}
	})
}
