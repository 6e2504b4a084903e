// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package procmem reduces this process's resident memory.
package procmem

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Trim returns free heap to the kernel, and unmaps the program's pages. It is for the
// end of a program's start: registering the types of the Kubernetes API touches nearly
// all pages of a program, and the kernel maps the neighbours of each (mm/memory.c,
// do_fault_around), while an idle agent needs a third of them.
func Trim() error {
	debug.FreeOSMemory()
	return unmapProgram()
}

// unmapProgram takes the program's own pages out of the process. They stay in the
// page cache, where the kernel takes them first when it needs memory, and what is
// used again is mapped from there without reading the disk (MADV_COLD and
// MADV_DONTNEED, mm/madvise.c).
func unmapProgram() error {
	maps, err := program()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range maps {
		for _, advice := range []uintptr{unix.MADV_COLD, unix.MADV_DONTNEED} {
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, advice); errno != 0 {
				errs = append(errs, fmt.Errorf("madvise %d of %s at %x: %w", advice, m.Pathname, m.StartAddr, errno))
			}
		}
	}
	return errors.Join(errs...)
}

// program lists where the program's own file is mapped, without what can be
// written: that is no longer as in the file.
func program() ([]*procfs.ProcMap, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	self, err := procfs.Self()
	if err != nil {
		return nil, err
	}
	maps, err := self.ProcMaps()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(maps, func(m *procfs.ProcMap) bool {
		return m.Pathname != path || m.Perms.Write
	}), nil
}
