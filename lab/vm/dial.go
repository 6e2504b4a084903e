// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"net"
	"os"
)

// dial connects to a socket of the machine's folder. It goes through a
// descriptor of the folder, since the kernel takes no path over 108 bytes
// (unix(7)) and a checkout may lie deep.
func (v *VM) dial(ctx context.Context, socket string) (net.Conn, error) {
	dir, err := os.Open(v.dir)
	if err != nil {
		return nil, fmt.Errorf("connect to virtual machine: %w", err)
	}
	defer func() { _ = dir.Close() }()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socket))
	if err != nil {
		return nil, fmt.Errorf("connect to virtual machine: %w", err)
	}
	return conn, nil
}

// Shell is a socket behind which a terminal with the guest's root shell waits,
// for one connection at a time.
func (v *VM) Shell() string { return v.path(shellSocket) }

// DialShell connects to Shell, however deep the machine's folder lies.
func (v *VM) DialShell(ctx context.Context) (net.Conn, error) { return v.dial(ctx, shellSocket) }
