// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace of a test. It has no name, so that nothing
// of it outlives the test's process.
type Namespace struct {
	file *os.File
	path string
}

// NewNamespace makes an empty network namespace, or skips the test where that
// is not allowed.
func NewNamespace(t testing.TB) *Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	var ns Namespace
	err := onThread(func() error {
		if err := unshare(); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		var err error
		ns.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	// The descriptor's own path would lead to whatever has its number next.
	ns.path = filepath.Join(t.TempDir(), "net")
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", ns.file.Fd()), ns.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Close)
	return &ns
}

// unshare enters a new network namespace. The kernel has none to give while an RDMA device
// of an earlier test ends, which each namespace would show (drivers/infiniband/core/device.c,
// rdma_dev_init_net).
func unshare() error {
	err := unix.Unshare(unix.CLONE_NEWNET)
	for tries := 0; errors.Is(err, unix.ENODEV) && tries < 100; tries++ {
		time.Sleep(50 * time.Millisecond)
		err = unix.Unshare(unix.CLONE_NEWNET)
	}
	return err
}

// Path is a path at which the namespace can be opened until Close, and nothing
// afterwards.
func (n *Namespace) Path() string { return n.path }

// Fd is a descriptor of the namespace.
func (n *Namespace) Fd() int { return int(n.file.Fd()) }

// Close ends the namespace, unless somebody else holds it. Closing twice is
// allowed.
func (n *Namespace) Close() {
	_ = os.Remove(n.path)
	_ = n.file.Close()
}

// Do runs fn on a thread inside the namespace. The thread ends with fn, so that
// nothing else ever runs there.
func (n *Namespace) Do(t testing.TB, fn func() error) {
	t.Helper()
	err := onThread(func() error {
		if err := unix.Setns(n.Fd(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
		return fn()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Run runs one command per line inside the namespace, such as
// "ip link set lo up", and returns their output. A failure fails the test.
func (n *Namespace) Run(t testing.TB, lines string) string {
	t.Helper()
	var out strings.Builder
	n.Do(t, func() error {
		for _, c := range commands(lines) {
			run := exec.CommandContext(t.Context(), c.words[0], c.words[1:]...)
			run.Stdin = strings.NewReader(c.input)
			text, err := run.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w: %s", strings.TrimSpace(strings.Join(c.words, " ")+"\n"+c.input), err, text)
			}
			out.Write(text)
		}
		return nil
	})
	return out.String()
}

// command is a program's words and what it reads.
type command struct {
	words []string
	input string
}

// commands are those of the lines. Lines for ip that follow each other and have
// the same options are one command: most of a test's time is starting programs.
func commands(lines string) []command {
	var list []command
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		rest := slices.IndexFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") }) + 1
		if words[0] != "ip" || rest == 0 || strings.ContainsAny(line, `'"\#`) {
			list = append(list, command{words: words})
			continue
		}
		batch := slices.Concat(words[:rest], []string{"-batch", "-"})
		if len(list) == 0 || !slices.Equal(list[len(list)-1].words, batch) {
			list = append(list, command{words: batch})
		}
		list[len(list)-1].input += strings.Join(words[rest:], " ") + "\n"
	}
	return list
}

// onThread runs fn on a thread of its own, which ends with it: a locked thread
// is destroyed when its goroutine returns. The first thread cannot end, and its
// namespace is what /proc/self/ns/net shows, so it is passed over.
func onThread(fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onThread(fn)
			return
		}
		done <- fn()
	}()
	return <-done
}
