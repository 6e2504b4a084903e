// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/openat2"
)

// sysfsMagic is the type of sysfs (statfs(2)).
const sysfsMagic = unix.SYSFS_MAGIC

// The ways to open what lies below a directory (man 2 openat2). crossing may lead
// over a mount point, which the caller has looked up; staying never does.
const (
	crossing = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
	staying  = crossing | sameMount
	// sameMount follows links, such as those of /sys/class, but none to another mount.
	sameMount = unix.RESOLVE_NO_XDEV
	// beneathMount follows links as well, none of which leads out of the directory.
	beneathMount = sameMount | unix.RESOLVE_BENEATH
)

// linkItself opens a file without reading it, and a link as such (man 2 open).
const linkItself = unix.O_PATH | unix.O_NOFOLLOW

// openPath opens a directory for what can be opened below it.
func openPath(path string) (int, error) {
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func open(dir *os.File, name string, flags int, resolve uint64) (int, error) {
	return openat2.Open(int(dir.Fd()), name, uint64(flags), resolve)
}

// isOf says whether an open file lies in a file system of a type. It asks that
// file system itself.
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

// deviceNumber uses only attributes that the kernel has cached
// (AT_STATX_DONT_SYNC), follows no link, opens and mounts nothing.
func deviceNumber(directory int, name string) (string, bool, error) {
	var s unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(directory, name, flags, unix.STATX_TYPE, &s); err != nil {
		return "", false, err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFCHR {
		return "", false, nil
	}
	return fmt.Sprintf("%d:%d", s.Rdev_major, s.Rdev_minor), true, nil
}
