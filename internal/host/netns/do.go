// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Current in place of a descriptor is the namespace that the process is in: to
// stay there takes no privilege.
const Current = -1

// Do runs fn inside the namespace of a descriptor, for the system calls that go
// by the calling thread's namespace: opening a socket or a file of
// /proc/sys/net, bpf(2). What fn opened goes on working after Do.
//
// The thread is no other goroutine's meanwhile. It goes back afterwards; one
// that cannot is ended. The process's first thread never leaves, so that Self
// means the same at any time.
func Do(namespace int, fn func() error) error {
	if namespace == Current {
		return fn()
	}
	done := make(chan error, 1)
	go func() { done <- doOnThread(namespace, fn) }()
	return <-done
}

// doOnThread has a goroutine of its own: when it ends without unlocking its
// thread, the runtime ends the thread.
func doOnThread(namespace int, fn func() error) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread stays taken while another one does it.
		defer runtime.UnlockOSThread()
		return Do(namespace, fn)
	}
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace: %w", err)
	}
	defer home.Close()
	if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace: %w", err)
	}
	err = fn()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, fmt.Errorf("leave network namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}
