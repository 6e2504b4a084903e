// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package openat2 opens what lies below a directory and nowhere else, by one
// system call where os.Root takes one for each element of the path (man 2
// openat2, RESOLVE_BENEATH). Reading and writing is the caller's.
package openat2

import (
	"errors"

	"golang.org/x/sys/unix"
)

// tries bounds how often an open is repeated: the kernel answers EAGAIN to a path with
// ".." when something is renamed or mounted meanwhile.
const tries = 16

// Beneath opens a path below the directory of a descriptor: Open with
// RESOLVE_BENEATH, so that no link leads out of the directory.
func Beneath(dir int, path string, flags uint64) (fd int, err error) {
	return Open(dir, path, flags, unix.RESOLVE_BENEATH)
}

// Open opens a path at the directory of a descriptor, with RESOLVE_* of openat2(2).
// None of the kernel's own links, such as those in /proc/PID/fd, is followed.
func Open(dir int, path string, flags, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve | unix.RESOLVE_NO_MAGICLINKS}
	for range tries {
		fd, err = unix.Openat2(dir, path, &how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return -1, err
}

// Unsupported says whether openat2 itself is missing: Linux before 5.6, or a
// container runtime's seccomp profile of that age, which answers EPERM.
func Unsupported(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}
