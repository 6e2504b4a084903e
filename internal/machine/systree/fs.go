// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package systree

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"
)

var (
	_ fs.ReadLinkFS = (*Tree)(nil)
	_ fs.ReadDirFS  = (*Tree)(nil)
	_ fs.StatFS     = (*Tree)(nil)
)

// Open implements fs.FS.
func (t *Tree) Open(name string) (fs.File, error) {
	e, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	return &openEntry{entry: e, text: strings.NewReader(e.text), names: e.names()}, nil
}

// Stat implements fs.StatFS; it follows links.
func (t *Tree) Stat(name string) (fs.FileInfo, error) { return t.info("stat", name, true) }

// Lstat implements fs.ReadLinkFS.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) { return t.info("lstat", name, false) }

func (t *Tree) info(op, name string, follow bool) (fs.FileInfo, error) {
	e, err := t.find(op, name, follow)
	if err != nil {
		return nil, err
	}
	return entryInfo{e}, nil
}

// ReadLink implements fs.ReadLinkFS.
func (t *Tree) ReadLink(name string) (string, error) {
	e, err := t.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if e.mode != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EINVAL}
	}
	return e.text, nil
}

// ReadDir implements fs.ReadDirFS.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.find("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if e.children == nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	entries := make([]fs.DirEntry, 0, len(e.children))
	for _, child := range e.names() {
		entries = append(entries, fs.FileInfoToDirEntry(entryInfo{e.children[child]}))
	}
	return entries, nil
}

// ReadAttribute fills buf from one attribute, without the cost of an fs.File; host/sysfs
// uses it where a file system has it.
func (t *Tree) ReadAttribute(name string, buf []byte) (int, error) {
	e, err := t.find("open", name, true)
	if err != nil {
		return 0, err
	}
	if e.children != nil {
		return 0, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	return copy(buf, e.text), nil
}

// find resolves a path as the kernel does, links on the way included.
func (t *Tree) find(op, name string, follow bool) (*entry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	e, err := t.walk(name, follow)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return e, nil
}

func (t *Tree) walk(name string, follow bool) (*entry, error) {
	at, here, rest := t.root, ".", name
	for hops := 0; rest != "" && rest != "."; {
		element, tail, more := strings.Cut(rest, "/")
		if at.children == nil {
			return nil, syscall.ENOTDIR
		}
		child, ok := at.children[element]
		if !ok {
			return nil, syscall.ENOENT
		}
		if child.mode != fs.ModeSymlink || !more && !follow {
			at, here, rest = child, path.Join(here, element), tail
			continue
		}
		if hops++; hops > maxLinkHops {
			return nil, syscall.ELOOP
		}
		at, rest, here = t.root, path.Join(here, child.text, tail), "."
	}
	return at, nil
}

// openEntry is an open attribute or directory.
type openEntry struct {
	entry *entry
	text  *strings.Reader
	names []string
}

func (o *openEntry) Stat() (fs.FileInfo, error) { return entryInfo{o.entry}, nil }
func (o *openEntry) Close() error               { return nil }

func (o *openEntry) Read(buf []byte) (int, error) {
	if o.entry.children != nil {
		return 0, &fs.PathError{Op: "read", Path: o.entry.name, Err: syscall.EISDIR}
	}
	return o.text.Read(buf)
}

// ReadDir implements fs.ReadDirFile.
func (o *openEntry) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(o.names) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(o.names) {
		n = len(o.names)
	}
	out := make([]fs.DirEntry, n)
	for i, name := range o.names[:n] {
		out[i] = fs.FileInfoToDirEntry(entryInfo{o.entry.children[name]})
	}
	o.names = o.names[n:]
	return out, nil
}

// entryInfo implements fs.FileInfo.
type entryInfo struct{ *entry }

func (i entryInfo) Name() string       { return i.name }
func (i entryInfo) Size() int64        { return int64(len(i.text)) }
func (i entryInfo) ModTime() time.Time { return time.Time{} }
func (i entryInfo) IsDir() bool        { return i.mode.IsDir() }
func (i entryInfo) Sys() any           { return nil }

func (i entryInfo) Mode() fs.FileMode {
	switch i.mode {
	case fs.ModeDir:
		return fs.ModeDir | 0o555
	case fs.ModeSymlink:
		return fs.ModeSymlink | 0o777
	}
	return 0o444
}
