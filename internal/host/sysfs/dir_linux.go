// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/openat2"
)

// Dir is a directory such as /sys, as an fs.FS which no link leads out of, like os.Root.
// For attributes and links, of which a scan reads thousands, it takes three system
// calls each, where os.Root takes one for each element of a path (RESOLVE_BENEATH,
// man 2 openat2).
type Dir struct {
	root *os.Root
	rest rootFS
	fd   int
}

// rootFS is what os.Root.FS returns.
type rootFS interface {
	fs.ReadDirFS
	fs.ReadLinkFS
	fs.StatFS
}

// Open opens a directory such as /sys.
func Open(name string) (*Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open machine directory: %w", err)
	}
	rest, ok := root.FS().(rootFS)
	if !ok {
		return nil, errors.Join(fmt.Errorf("open machine directory %s: os.Root reads no links", name), root.Close())
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open machine directory %s: %w", name, err), root.Close())
	}
	return &Dir{root: root, rest: rest, fd: fd}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return errors.Join(d.root.Close(), unix.Close(d.fd)) }

// Open implements fs.FS.
func (d *Dir) Open(name string) (fs.File, error) { return d.rest.Open(name) }

// ReadDir implements fs.ReadDirFS.
func (d *Dir) ReadDir(name string) ([]fs.DirEntry, error) {
	fd, err := d.beneath(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if openat2.Unsupported(err) {
		return d.rest.ReadDir(name)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	// os.Root stats each entry, of which class/net alone may have thousands; an
	// entry here stats only when Info is called.
	f := os.NewFile(uintptr(fd), filepath.Join(d.root.Name(), name))
	entries, err := f.ReadDir(-1)
	for i, e := range entries {
		entries[i] = entry{DirEntry: e, dir: d, name: path.Join(name, e.Name())}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, errors.Join(err, f.Close())
}

// entry is one of a directory; its name is that below the Dir.
type entry struct {
	fs.DirEntry
	dir  *Dir
	name string
}

// Info implements fs.DirEntry.
func (e entry) Info() (fs.FileInfo, error) { return e.dir.Lstat(e.name) }

// Stat implements fs.StatFS.
func (d *Dir) Stat(name string) (fs.FileInfo, error) { return d.rest.Stat(name) }

// Lstat implements fs.ReadLinkFS.
func (d *Dir) Lstat(name string) (fs.FileInfo, error) { return d.rest.Lstat(name) }

// ReadLink implements fs.ReadLinkFS.
func (d *Dir) ReadLink(name string) (string, error) {
	fd, err := d.beneath(name, unix.O_PATH|unix.O_NOFOLLOW)
	if openat2.Unsupported(err) {
		return d.rest.ReadLink(name)
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", buf[:])
	if errors.Is(err, unix.ENOENT) {
		err = unix.EINVAL // as readlink(2) of a file that is no link
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

// ReadAttribute reads a file into buf and returns how many bytes it has, at
// most len(buf). A read that does not fill the buffer has reached the end, which holds
// for attributes and ordinary files.
func (d *Dir) ReadAttribute(name string, buf []byte) (int, error) {
	fd, err := d.beneath(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if openat2.Unsupported(err) {
		return readFile(d.rest, name, buf)
	}
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		n, err := unix.Read(fd, buf)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, &fs.PathError{Op: "read", Path: name, Err: err}
		}
	}
}

func (d *Dir) beneath(name string, flags uint64) (int, error) {
	if !fs.ValidPath(name) {
		return -1, fs.ErrInvalid
	}
	return openat2.Beneath(d.fd, name, flags)
}
