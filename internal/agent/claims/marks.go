// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mark leaves a locked file that tells agents of this system that a
// registration socket is one of theirs. The lock ends with the process, so a
// file that is left behind vouches for nobody.
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
			return func() { _ = f.Close() }, nil
		}
		// Another agent took it for a dead one's, and removed it.
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
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
	// Nobody has it: what is left of an agent that has ended.
	return false, os.Remove(f.Name())
}
