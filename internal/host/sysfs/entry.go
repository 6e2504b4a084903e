// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// list names the entries of a directory; an absent directory has none.
func (r *reader) list(dir string) []fs.DirEntry {
	entries, err := fs.ReadDir(r.sys, dir)
	if err != nil && !isAbsent(err) {
		r.problem(dir, plain(err))
	}
	usable := entries[:0]
	for _, e := range entries {
		if !isText(e.Name()) {
			r.problem(dir, fmt.Errorf("left out entry %q: its name is no plain text", e.Name()))
			continue
		}
		usable = append(usable, e)
	}
	return usable
}

// link reads a symbolic link and returns where it leads, below /sys.
func (r *reader) link(name string) (string, error) {
	target, err := fs.ReadLink(r.sys, name)
	if err != nil {
		return "", plain(err)
	}
	if !isText(target) {
		return "", fmt.Errorf("link leads to %q, which is no plain text", target)
	}
	if path.IsAbs(target) {
		return "", fmt.Errorf("link leads to %q, want a relative path", target)
	}
	resolved := path.Join(path.Dir(name), target)
	if !fs.ValidPath(resolved) || resolved == "." {
		return "", fmt.Errorf("link leads to %q, outside of the tree", target)
	}
	return resolved, nil
}

// linkBase is the last element of where a link leads, as driver/ and physfn
// are read; nil when there is no such link.
func (r *reader) linkBase(name string) *string {
	target, err := r.link(name)
	if err != nil {
		if !isAbsent(err) {
			r.problem(name, err)
		}
		return nil
	}
	base := path.Base(target)
	return &base
}

// isText says whether a name fits on a line and into an API object.
func isText(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}
