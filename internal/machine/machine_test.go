// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"path/filepath"
	"strings"
	"testing"
)

// everyFacts calls f for each shipped machine and each of testdata/facts.
func everyFacts(t *testing.T, f func(t *testing.T, facts *Facts)) {
	t.Helper()
	files, err := filepath.Glob("testdata/facts/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test machines: %v", err)
	}
	for _, name := range append(Names(), files...) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			facts, err := OpenFacts(name)
			if err != nil {
				t.Fatal(err)
			}
			f(t, facts)
		})
	}
}

func treeOf(t *testing.T, f *Facts) *Tree {
	t.Helper()
	tree, err := Render(f)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func shipped(t *testing.T, name string) *Facts {
	t.Helper()
	f, err := OpenFacts(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
