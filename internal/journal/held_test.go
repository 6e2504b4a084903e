// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/journal"
)

// tree are all files below a folder.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Who only wants to know what is held may have the journal mounted read-only: nothing is
// made, locked or cleaned.
func TestHeldChangesNothing(t *testing.T) {
	j, dir := open(t)
	put(t, j, record("b"), record("a"))
	for _, e := range []string{"interrupted" + atomicfile.Suffix, "broken.json"} {
		if err := os.WriteFile(filepath.Join(dir, "dra.net", e), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, lock := range []string{"dra.net.lock", "dra.net/.lock", ".lock"} {
		if err := os.RemoveAll(filepath.Join(dir, lock)); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, dir)
	held, err := journal.Held(dir, []string{"dra.net", "dra.cpu"})
	if err != nil || len(held) != 3 {
		t.Errorf("held %q, %v; want two claims, and what cannot be read", held, err)
	}
	if after := tree(t, dir); !slices.Equal(before, after) {
		t.Errorf("%q became %q", before, after)
	}
	none := filepath.Join(t.TempDir(), "journal")
	if held, err := journal.Held(none, []string{"dra.net"}); err != nil || len(held) > 0 {
		t.Errorf("without a journal: %q, %v", held, err)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("the journal was made")
	}
}
