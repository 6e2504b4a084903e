// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Sys is a path of /sys as the namespace shows it, by a mount that nobody else
// sees and that ends with the test.
func (n *Namespace) Sys(t testing.TB) string {
	t.Helper()
	var mount int
	n.Do(t, func() error {
		config, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
		if err != nil {
			return fmt.Errorf("fsopen: %w", err)
		}
		defer func() { _ = unix.Close(config) }()
		if err := unix.FsconfigCreate(config); err != nil {
			return fmt.Errorf("fsconfig: %w", err)
		}
		if mount, err = unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, 0); err != nil {
			return fmt.Errorf("fsmount: %w", err)
		}
		return nil
	})
	t.Cleanup(func() { _ = unix.Close(mount) })
	return fmt.Sprintf("/proc/self/fd/%d", mount)
}
