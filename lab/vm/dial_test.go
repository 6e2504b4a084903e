// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Who finds the queue of a socket full waits, and gets in when it moves.
func TestDialWaitsForAPlace(t *testing.T) {
	v := &VM{dir: t.TempDir()}
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(listener) })
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrUnix{Name: filepath.Join(v.dir, "socket")}), unix.Listen(listener, 0)); err != nil {
		t.Fatal(err)
	}
	first, err := v.dial(t.Context(), "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	short, cancel := context.WithCancel(t.Context())
	time.AfterFunc(2*again, cancel)
	if _, err := v.dial(short, "socket"); err == nil || short.Err() == nil {
		t.Fatalf("a full queue: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		var second net.Conn
		second, err := v.dial(t.Context(), "socket")
		if err == nil {
			err = second.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(2 * again):
	}
	served, _, err := unix.Accept(listener)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(served) })
	if err := <-done; err != nil {
		t.Error(err)
	}
}
