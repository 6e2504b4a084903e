// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package openat2 opens what lies below a directory and nowhere else, by one
// system call where os.Root takes one for each element of the path (man 2
// openat2, RESOLVE_BENEATH).
//
// Nothing here reads or writes: that is for who knows what the files are.
package openat2

import (
	"errors"

	"golang.org/x/sys/unix"
)

// tries bounds how often the kernel is asked again: it gives up a path with ".."
// when something is renamed meanwhile.
const tries = 16

// Beneath opens a path below the directory of a descriptor. No link leads out of
// it, and none of the kernel's own, such as those in /proc/PID/fd, is followed.
func Beneath(dir int, path string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
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
