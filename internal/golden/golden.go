// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package golden compares what a test made with a file that is kept beside it. The
// flag -update, which every test that imports it has, rewrites these files, and the
// parts of the documentation that tests make. Only tests import it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files, and what tests make of the documentation")

// Update says whether the test was run with -update.
func Update() bool { return *update }

// Assert fails the test where a file differs from got. With -update it writes the
// file.
func Assert(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", path, diff)
	}
}
