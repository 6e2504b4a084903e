// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package systree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteTo writes the tree as the directory dir, which must be missing or
// empty: whole, or not at all. Besides devices, bus and class it makes a link
// sys to the directory itself, so that readers which want the directory above
// /sys (hwloc's HWLOC_FSROOT) take the same path.
func (t *Tree) WriteTo(dir string) error {
	if err := t.writeTo(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("write tree %s: %w", dir, err)
	}
	return nil
}

func (t *Tree) writeTo(dir string) (err error) {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("want an empty directory or none, it holds %s", entries[0].Name())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(parent, ".plumbline-tree-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	if err := t.fill(temporary); err != nil {
		return err
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // not empty any more
	}
	return os.Rename(temporary, dir)
}

// fill writes below dir and nowhere else: no path of a Tree leads out of it or through
// a link.
func (t *Tree) fill(dir string) error {
	if err := fillDirectory(dir, t.root); err != nil {
		return err
	}
	if _, taken := t.root.children["sys"]; taken {
		return nil
	}
	return os.Symlink(".", filepath.Join(dir, "sys"))
}

func fillDirectory(dir string, e *entry) error {
	for _, name := range e.names() {
		child, at := e.children[name], filepath.Join(dir, name)
		var err error
		switch child.mode {
		case fs.ModeDir:
			if err = os.Mkdir(at, 0o755); err == nil {
				err = fillDirectory(at, child)
			}
		case fs.ModeSymlink:
			err = os.Symlink(child.text, at)
		default:
			err = os.WriteFile(at, []byte(child.text), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
