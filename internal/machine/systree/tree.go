// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package systree

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tree is a sysfs tree in memory: directories, attributes and symbolic links
// by their path below /sys. It is an fs.FS that follows links as a mounted
// tree does, so host/sysfs reads it directly. Build it, then only read it.
type Tree struct{ root *entry }

// Entry is one element of a Tree.
type Entry struct {
	// Path is below /sys, such as "devices/system/cpu/online".
	Path string
	// Mode is fs.ModeDir, fs.ModeSymlink, or 0 for an attribute.
	Mode fs.FileMode
	// Text is an attribute's content, or where a link leads, relative to the
	// directory it lies in.
	Text string
}

type entry struct {
	name     string
	mode     fs.FileMode
	text     string
	children map[string]*entry // nil unless a directory
}

// maxLinkHops is the kernel's limit (include/linux/namei.h, MAXSYMLINKS).
const maxLinkHops = 40

// New returns an empty tree.
func New() *Tree { return &Tree{root: newDirectory(".")} }

func newDirectory(name string) *entry {
	return &entry{name: name, mode: fs.ModeDir, children: map[string]*entry{}}
}

// AddDir adds a directory and those above it. One that exists already is fine.
func (t *Tree) AddDir(name string) error {
	if name == "." {
		return nil
	}
	if err := checkPath(name); err != nil {
		return err
	}
	at := t.root
	for element := range strings.SplitSeq(name, "/") {
		child, ok := at.children[element]
		if !ok {
			child = newDirectory(element)
			at.children[element] = child
		}
		if child.children == nil {
			return fmt.Errorf("add %q: %q is no directory", name, element)
		}
		at = child
	}
	return nil
}

// AddFile adds an attribute with its exact content, line end included.
func (t *Tree) AddFile(name, content string) error {
	return t.Add(Entry{Path: name, Text: content})
}

// AddLink adds a symbolic link; target is a path below /sys, too.
func (t *Tree) AddLink(name, target string) error {
	if err := checkPath(target); err != nil {
		return err
	}
	return t.Add(Entry{Path: name, Mode: fs.ModeSymlink, Text: relative(path.Dir(name), target)})
}

// Add adds one entry. A link must not lead out of the tree; its target need not exist.
func (t *Tree) Add(e Entry) error {
	if e.Mode == fs.ModeDir {
		return t.AddDir(e.Path)
	}
	if err := checkPath(e.Path); err != nil {
		return err
	}
	dir, base := path.Split(e.Path)
	dir = path.Clean("./" + dir)
	if e.Mode == fs.ModeSymlink {
		if target := path.Join(dir, e.Text); path.IsAbs(e.Text) || e.Text == "" || checkPath(target) != nil {
			return fmt.Errorf("add link %q: target %q does not lie in the tree", e.Path, e.Text)
		}
	}
	if err := t.AddDir(dir); err != nil {
		return err
	}
	parent := t.root
	if dir != "." {
		for element := range strings.SplitSeq(dir, "/") {
			parent = parent.children[element]
		}
	}
	if _, twice := parent.children[base]; twice {
		return fmt.Errorf("add %q: exists already", e.Path)
	}
	parent.children[base] = &entry{name: base, mode: e.Mode, text: e.Text}
	return nil
}

// checkPath refuses what would be no path below /sys: absolute, with "..",
// or with control characters.
func checkPath(name string) error {
	switch {
	case !fs.ValidPath(name) || name == ".":
		return fmt.Errorf("path %q does not lie in the tree", name)
	case len(name) > 4000:
		return fmt.Errorf("path %q... is longer than 4000 bytes", name[:40])
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("path %q holds characters no sysfs name has", name)
	}
	return nil
}

// relative is the way from a directory to a target, as sysfs links are.
func relative(dir, target string) string {
	from, to := strings.Split(dir, "/"), strings.Split(target, "/")
	if dir == "." {
		from = nil
	}
	for len(from) > 0 && len(to) > 1 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	return strings.Repeat("../", len(from)) + strings.Join(to, "/")
}

// Entries lists the tree in path order, parents first. Directories that hold
// something are left out: their entries imply them.
func (t *Tree) Entries() []Entry {
	var out []Entry
	var walk func(dir string, e *entry)
	walk = func(dir string, e *entry) {
		for _, name := range e.names() {
			child := e.children[name]
			at := path.Join(dir, name)
			if len(child.children) == 0 {
				out = append(out, Entry{Path: at, Mode: child.mode, Text: child.text})
			}
			walk(at, child)
		}
	}
	walk(".", t.root)
	return out
}

func (e *entry) names() []string {
	names := make([]string, 0, len(e.children))
	for name := range e.children {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
