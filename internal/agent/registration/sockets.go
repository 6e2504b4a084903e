// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// listen makes a socket for the kubelet. Its end removes the file only while that
// is its own: an agent that ends must not take away the socket of the one that
// came after it, since the kubelet would notice only when it starts anew.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if of, ok := l.(*net.UnixListener); ok {
		of.SetUnlinkOnClose(false)
	}
	made, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	own := &socket{Listener: l}
	own.end = sync.OnceValue(func() error {
		// Before the listener closes: as long as it is open, no other file has
		// its inode number.
		var err error
		if now, statErr := os.Lstat(path); statErr == nil && os.SameFile(now, made) {
			err = os.Remove(path)
		}
		return errors.Join(err, l.Close())
	})
	return own, nil
}

// socket is a listener with an end of its own.
type socket struct {
	net.Listener
	end func() error
}

// Close implements net.Listener.
func (s *socket) Close() error { return s.end() }

// mark leaves a locked file that tells agents of this system that a
// registration socket is one of theirs. The lock ends with the process, so a
// file that is left behind, unlocked, means nothing.
func (n Node) mark(driver string) (unmark func(), err error) {
	if err := os.MkdirAll(n.AgentsDir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(n.AgentsDir, n.socketName(driver))
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		locked, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if now, err := os.Lstat(path); err == nil && os.SameFile(locked, now) {
			// Removed while the lock is held: no other agent can be using it.
			if err := n.sweep(); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return func() { _, _ = os.Remove(path), f.Close() }, nil
		}
		// Another agent took it for a dead one's, and removed it.
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// sweep removes the files of agents that were killed.
func (n Node) sweep() error {
	entries, err := os.ReadDir(n.AgentsDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := n.marked(e.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// marked says whether a living agent of this system has the socket.
func (n Node) marked(socket string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(n.AgentsDir, socket), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// Unlocked: left behind by an agent that has ended.
	return false, os.Remove(f.Name())
}
