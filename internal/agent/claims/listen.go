// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"sync"
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
