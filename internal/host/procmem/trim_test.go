// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procmem

import (
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// The program's pages leave the process, which goes on.
func TestTrim(t *testing.T) {
	populate(t)
	before := mapped(t)
	if err := Trim(); err != nil {
		t.Fatal(err)
	}
	if after := mapped(t); after >= before {
		t.Errorf("%d KiB of files are mapped, %d before: want less", after>>10, before>>10)
	}
}

// populate maps every page of the program, as a long start does.
func populate(t *testing.T) {
	t.Helper()
	maps, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, unix.MADV_POPULATE_READ); errno != 0 {
			t.Fatalf("map %x-%x: %v", m.StartAddr, m.EndAddr, errno)
		}
	}
}

// mapped is how much of files this process has in memory, in bytes. Where the
// program is on a tmpfs, as in an initramfs, its pages count as shared memory.
func mapped(t *testing.T) uint64 {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	status, err := self.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	return status.RssFile + status.RssShmem
}
