// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/openat2"
)

// fileAtMost is above what any file read here holds: a page, in which the kernel
// writes a cpuset of 8192 CPUs.
const fileAtMost = 4096

// files reads and writes below a directory, and nowhere else. A group's file is
// four directories down, and os.Root opens each on the way; openat2(2) opens the
// file at once, which a node with 1,500 containers notices.
type files struct {
	root *os.Root
	dir  *os.File
	// atOnce: openat2 is there (Linux 5.6), and no seccomp profile forbids it.
	atOnce bool
}

func newFiles(root *os.Root) (files, error) {
	dir, err := root.Open(".")
	if err != nil {
		return files{}, err
	}
	f := files{root: root, dir: dir}
	fd, err := f.openAtOnce(".", unix.O_DIRECTORY)
	if err == nil {
		f.atOnce = true
		err = unix.Close(fd)
	}
	if err != nil && !openat2.Unsupported(err) {
		return files{}, errors.Join(err, dir.Close())
	}
	return f, nil
}

func (f files) close() error { return errors.Join(f.dir.Close(), f.root.Close()) }

func (f files) openAtOnce(path string, flags uint64) (int, error) {
	return openat2.Beneath(int(f.dir.Fd()), path, flags)
}

func (f files) read(path string) (string, error) {
	if !f.atOnce {
		text, err := f.root.ReadFile(path)
		return string(text), err
	}
	fd, err := f.openAtOnce(path, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }() // only read from
	// The kernel gives the whole text at once (fs/kernfs/file.c).
	text := make([]byte, fileAtMost)
	for {
		n, err := unix.Read(fd, text)
		if !errors.Is(err, unix.EINTR) {
			return string(text[:max(n, 0)]), err
		}
	}
}

// write overwrites a file that is there.
func (f files) write(path, value string) error {
	if !f.atOnce {
		file, err := f.root.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteString(value)
		return errors.Join(err, file.Close())
	}
	fd, err := f.openAtOnce(path, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	// One call: the kernel takes each as a whole new value.
	for {
		_, err := unix.Write(fd, []byte(value))
		if !errors.Is(err, unix.EINTR) {
			return errors.Join(err, unix.Close(fd))
		}
	}
}

func (f files) exists(path string) bool {
	_, err := f.root.Stat(path)
	return err == nil
}
