// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// inside opens the root directory of a process as it sees it.
func (r *Reader) inside(pid int) (*os.File, error) {
	path := filepath.Join(r.options.Proc, strconv.Itoa(pid), "root")
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the container's root directory: %w", err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openTries bounds how often openat2 is asked again; it gives up when something
// is renamed or mounted meanwhile.
const openTries = 16

// openBelow opens a directory below another one. Links are the container's own,
// and go on inside it: RESOLVE_IN_ROOT (man 2 openat2).
func openBelow(root *os.File, name string, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: resolve | unix.RESOLVE_NO_MAGICLINKS,
	}
	for try := 1; ; try++ {
		fd, err := unix.Openat2(int(root.Fd()), name, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if again := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR); !again || try == openTries {
			return nil, fmt.Errorf("open %s in the container: %w", name, err)
		}
	}
}

// isOf says whether an open file lies in a file system of a type.
func isOf(f *os.File, kind int64) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return fmt.Errorf("%s in the container: %w", f.Name(), err)
	}
	if s.Type != kind {
		return fmt.Errorf("%s in the container is not the kernel's: its file system is of type %#x, want %#x", f.Name(), s.Type, kind)
	}
	return nil
}

// readLink reads a link of an open directory.
func readLink(dir *os.File, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
