// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package initramfs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"
)

// File is one file of the guest. Exactly one of Content, Source and Link
// counts: Link where it is set, else Source where it is set.
type File struct {
	// Mode is its permission bits; zero means 0644.
	Mode fs.FileMode
	// Content is what is in it.
	Content []byte
	// Source is a file on this host to copy.
	Source string
	// Link is the target of a symbolic link.
	Link string
}

// Files are a guest's files by absolute path. Folders come by themselves.
type Files map[string]File

// Add puts files into f, over what is there.
func (f Files) Add(files Files) { maps.Copy(f, files) }

// Dirs are folders a guest needs although nothing is in them.
type Dirs []string

// Write writes the archive. Everything belongs to root and is as old as the
// epoch.
func Write(w io.Writer, files Files, dirs Dirs) error {
	buffered := bufio.NewWriterSize(w, 1<<20)
	out := &archive{records: cpio.Newc.Writer(buffered), made: map[string]bool{"/": true}}
	for _, dir := range slices.Sorted(slices.Values(dirs)) {
		if err := out.mkdir(path.Clean(dir)); err != nil {
			return fmt.Errorf("archive folder %s: %w", dir, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := out.add(name, files[name]); err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
	}
	if err := cpio.WriteTrailer(out.records); err != nil {
		return fmt.Errorf("end archive: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// WriteFile writes the archive to a file of its own.
func WriteFile(name string, files Files, dirs Dirs) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("create archive: %w", err)
	}
	if err := Write(f, files, dirs); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

type archive struct {
	records cpio.RecordWriter
	made    map[string]bool
	inode   uint64
}

func (a *archive) mkdir(dir string) error {
	if a.made[dir] {
		return nil
	}
	if err := a.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	a.made[dir] = true
	return a.write(cpio.Directory(dir[1:], 0o755))
}

func (a *archive) add(name string, f File) error {
	if !path.IsAbs(name) || path.Clean(name) != name {
		return fmt.Errorf("%q is no clean absolute path", name)
	}
	if err := a.mkdir(path.Dir(name)); err != nil {
		return err
	}
	if f.Link != "" {
		return a.write(cpio.Symlink(name[1:], f.Link))
	}
	mode := uint64(f.Mode.Perm())
	if mode == 0 {
		mode = 0o644
	}
	if f.Source == "" {
		return a.write(record(name, mode, bytes.NewReader(f.Content), int64(len(f.Content))))
	}
	source, err := os.Open(f.Source)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", f.Source)
	}
	return a.write(record(name, mode, source, info.Size()))
}

func record(name string, mode uint64, content io.ReaderAt, size int64) cpio.Record {
	return cpio.Record{ReaderAt: content, Info: cpio.Info{
		Name: strings.TrimPrefix(name, "/"), Mode: cpio.S_IFREG | mode, FileSize: uint64(size),
	}}
}

// write gives each record an inode number of its own: the kernel takes files
// that share one for hard links (init/initramfs.c).
func (a *archive) write(r cpio.Record) error {
	a.inode++
	r.Ino, r.NLink, r.UID, r.GID, r.MTime = a.inode, 1, 0, 0, 0
	return a.records.WriteRecord(r)
}
