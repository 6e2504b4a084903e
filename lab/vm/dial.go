// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// again is how long is waited for a place in a socket's queue.
const again = 50 * time.Millisecond

// dial connects to a socket of the machine's folder. It goes through a
// descriptor of the folder, since the kernel takes no path over 108 bytes
// (unix(7)) and a checkout may lie deep. QEMU serves one connection at a time and
// has one more wait; where that place is taken the kernel says EAGAIN to who does not
// block (net/unix/af_unix.c, unix_stream_connect), and dial waits for it.
func (v *VM) dial(ctx context.Context, socket string) (net.Conn, error) {
	dir, err := os.Open(v.dir)
	if err != nil {
		return nil, fmt.Errorf("connect to virtual machine: %w", err)
	}
	defer func() { _ = dir.Close() }()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socket))
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			return nil, fmt.Errorf("connect to virtual machine: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to virtual machine: %w", errors.Join(err, ctx.Err()))
		case <-time.After(again):
		}
	}
}

// Shell is a socket behind which a terminal with the guest's root shell waits,
// for one connection at a time.
func (v *VM) Shell() string { return v.path(shellSocket) }

// DialShell connects to Shell, however deep the machine's folder lies.
func (v *VM) DialShell(ctx context.Context) (net.Conn, error) { return v.dial(ctx, shellSocket) }
