// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
)

// OpenNamespace opens /sys as a network namespace shows it: with its interfaces, and
// those RDMA devices that it sees. It is a mount of its own, in no mount namespace, and
// ends with Close (Linux 5.2).
func OpenNamespace(namespace int) (*Dir, error) {
	mount, err := mountIn(namespace)
	if err != nil {
		return nil, fmt.Errorf("show /sys of a network namespace: %w", err)
	}
	// The directory holds the mount from here on.
	dir, err := Open(fmt.Sprintf("/proc/self/fd/%d", mount))
	if closeErr := unix.Close(mount); err == nil && closeErr != nil {
		return nil, errors.Join(closeErr, dir.Close())
	}
	return dir, err
}

func mountIn(namespace int) (mount int, err error) {
	err = netns.Do(namespace, func() error {
		config, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
		if err != nil {
			return fmt.Errorf("fsopen: %w", err)
		}
		defer func() { _ = unix.Close(config) }()
		if err := unix.FsconfigCreate(config); err != nil {
			return fmt.Errorf("fsconfig: %w", err)
		}
		if mount, err = unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY); err != nil {
			return fmt.Errorf("fsmount: %w", err)
		}
		return nil
	})
	return mount, err
}
