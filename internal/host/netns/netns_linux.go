// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package netns opens and compares network namespaces, and is the only place that
// calls setns(2).
//
// Work inside a namespace mostly goes through a socket that was opened in it
// (host/rtnl); Do is for opening such a socket, and for system calls that go by the
// calling thread's namespace.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrGone says that a path names no namespace (any more): the runtime removes
// the file, or leaves an empty one behind after unmounting.
var ErrGone = errors.New("no network namespace is there")

// ID is a namespace's identity. A path or a descriptor is only a way to it.
type ID struct {
	Dev, Inode uint64
}

// Namespace is an open network namespace. It lives at least until Close.
type Namespace struct {
	file *os.File
	id   ID
}

// Self is the path of this process's own network namespace, that is of its
// first thread, which Do never moves.
const Self = "/proc/self/ns/net"

// Open opens the namespace at a path such as /run/netns/cni-1 or
// /proc/12/ns/net. The error is ErrGone when there is none.
func Open(path string) (*Namespace, error) {
	// O_NONBLOCK, or opening a FIFO in its place would block.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open network namespace %q: %w", path, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	id, err := identify(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open network namespace %q: %w", path, err), f.Close())
	}
	return &Namespace{file: f, id: id}, nil
}

func identify(f *os.File) (ID, error) {
	fd := int(f.Fd())
	var filesystem unix.Statfs_t
	if err := unix.Fstatfs(fd, &filesystem); err != nil {
		return ID{}, err
	}
	if filesystem.Type != unix.NSFS_MAGIC {
		return ID{}, ErrGone
	}
	kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
	if err != nil {
		return ID{}, fmt.Errorf("ask for the kind of namespace: %w", err)
	}
	if kind != unix.CLONE_NEWNET {
		return ID{}, errors.New("a namespace, but not of the network")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return ID{}, err
	}
	return ID{Dev: stat.Dev, Inode: stat.Ino}, nil
}

// Fd is the open descriptor; valid until Close.
func (n *Namespace) Fd() int { return int(n.file.Fd()) }

// ID is the namespace's identity.
func (n *Namespace) ID() ID { return n.id }

// Close closes the descriptor. With the last reference the kernel destroys the
// namespace, and returns its physical interfaces to the initial one.
func (n *Namespace) Close() error { return n.file.Close() }

// Do runs fn inside the namespace of a descriptor, for the system calls that go
// by the calling thread's namespace: opening a socket or a file of
// /proc/sys/net, bpf(2). What fn opened goes on working after Do.
//
// The thread is locked to fn meanwhile, and returns to its namespace afterwards; one
// that cannot is ended. The process's first thread never leaves, so that Self always
// means the same.
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
		// The first thread stays locked, so that another one runs fn.
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
