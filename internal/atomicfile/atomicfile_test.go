// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"plumbline.dev/plumbline/internal/atomicfile"
)

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "guard")
	for _, text := range []string{"first", "second and longer", "3"} {
		if err := atomicfile.Write(path, 0o755, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v, %v, want the one that was asked for, whatever the umask", info, err)
	}
	if got := names(t, dir); got != "guard" {
		t.Errorf("the directory has %s", got)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "metadata.json")
	for _, text := range []string{"first", "second and longer"} {
		if err := atomicfile.Replace(path, 0o644, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v, want the one that was asked for, whatever the umask", info, err)
	}
	if got := names(t, dir); got != "metadata.json" {
		t.Errorf("the directory has %s", got)
	}
	if err := atomicfile.Replace(filepath.Join(dir, "none", "x"), 0o644, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// What fails half-way leaves the old file, and nothing beside it.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := atomicfile.Write(path, 0o600, iotest.ErrReader(broken)); !errors.Is(err, broken) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if got, err := os.ReadFile(path); string(got) != "old" || err != nil {
		t.Errorf("the old file is %q, %v", got, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "taken"), 0o600, strings.NewReader("x")); err == nil {
		t.Error("a directory was replaced")
	}
	if got := names(t, dir); got != "record taken" {
		t.Errorf("the directory has %s", got)
	}
	if err := atomicfile.Write(filepath.Join(dir, "none", "record"), 0o600, strings.NewReader("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// Readers and writers at once: a reader never sees a part.
func TestWritersAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	texts := map[string]bool{}
	for i := range 8 {
		texts[strings.Repeat(string(rune('a'+i)), 1000*(i+1))] = true
	}
	var group sync.WaitGroup
	for text := range texts {
		group.Go(func() {
			for range 4 {
				if err := atomicfile.Write(path, 0o600, strings.NewReader(text)); err != nil {
					t.Error(err)
				}
				if got, err := os.ReadFile(path); err != nil || !texts[string(got)] {
					t.Errorf("read %d bytes, %v: no writer's", len(got), err)
				}
			}
		})
	}
	group.Wait()
	if got := names(t, filepath.Dir(path)); got != "record" {
		t.Errorf("the directory has %s", got)
	}
}
