// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package bpftest gives tests eBPF programs, and a place to pin them. Only tests
// import it.
package bpftest

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// FS mounts a BPF file system of the test's own.
func FS(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		forbidden(t, "mount a BPF file system", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Program loads a program that only returns a number. It ends with the test, unless
// something else holds it.
func Program(t testing.TB, name string, kind ebpf.ProgramType, returns int32) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: kind, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, returns), asm.Return()},
	})
	if err != nil {
		forbidden(t, "load an eBPF program", err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// NeedTCX skips the test where attaching failed because the kernel is older than
// Linux 6.6, and fails it where it failed for another reason.
func NeedTCX(t testing.TB, err error) {
	t.Helper()
	// Below Linux 6.6 the attach type itself is invalid.
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
		t.Skipf("this kernel has no tcx: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// forbidden skips the test for lack of a privilege, and fails it on the lab's virtual
// machine, which has them all.
func forbidden(t testing.TB, what string, err error) {
	t.Helper()
	if errors.Is(err, unix.EPERM) && !hosttest.OnGuest() {
		t.Skipf("this machine does not let a test %s: %v", what, err)
	}
	t.Fatalf("%s: %v", what, err)
}
