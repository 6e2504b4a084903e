// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files atomically, whatever ends the
// process or the machine meanwhile. What is in the files is others' business.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Suffix ends the names of files that a process has not finished, or never
// will: it was killed.
const Suffix = ".tmp"

// Write puts content into the file at path. Until it returns, readers see the
// file that was there before; once it has, the new one is on the disk. Several
// processes may write one file: each writes beside it under a name of its own.
func Write(path string, mode fs.FileMode, content io.Reader) error {
	err := replace(path, mode, content, (*os.File).Sync)
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Replace is Write for what nobody needs after the machine's end: nothing waits for the
// disk, and the file may be empty then.
func Replace(path string, mode fs.FileMode, content []byte) error {
	if err := replace(path, mode, bytes.NewReader(content), func(*os.File) error { return nil }); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func replace(path string, mode fs.FileMode, content io.Reader, sync func(*os.File) error) error {
	beside, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+Suffix)
	if err != nil {
		return err
	}
	if err := fill(beside, mode, content, sync); err != nil {
		return errors.Join(err, os.Remove(beside.Name()))
	}
	if err := os.Rename(beside.Name(), path); err != nil {
		return errors.Join(err, os.Remove(beside.Name()))
	}
	return nil
}

// fill also closes the file: one that is open for writing cannot be run.
func fill(f *os.File, mode fs.FileMode, content io.Reader, sync func(*os.File) error) error {
	_, err := io.Copy(f, content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = sync(f)
	}
	return errors.Join(err, f.Close())
}

// SyncDir brings to the disk what was made, renamed or removed in a directory.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
