// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package mounts are the file systems that every node of the lab has, in a
// virtual machine or on this host. Whose root they lie below, and what else a
// node mounts, is its own package's business.
package mounts

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Mount is the arguments of mount(2); Target is a path of the node.
type Mount struct {
	Source, Target, Kind string
	Flags                uintptr
	Data                 string
}

const (
	noDevices = unix.MS_NOSUID | unix.MS_NODEV
	// Plain are the flags of what holds neither programs nor devices.
	Plain = noDevices | unix.MS_NOEXEC
)

// Node returns a node's file systems in the order to mount them: device is what
// is to lie at /dev, own come last.
func Node(device Mount, own ...Mount) []Mount {
	return append([]Mount{
		{"proc", "/proc", "proc", Plain, ""},
		{"sysfs", "/sys", "sysfs", Plain, ""},
		device,
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"},
		{"shm", "/dev/shm", "tmpfs", noDevices, ""},
		{"mqueue", "/dev/mqueue", "mqueue", Plain, ""},
		{"run", "/run", "tmpfs", noDevices, "mode=0755"},
		{"tmp", "/tmp", "tmpfs", noDevices, "mode=1777"},
		{"bpf", "/sys/fs/bpf", "bpf", Plain, "mode=0700"},
	}, own...)
}

// Below mounts file systems, each below root, and makes the folders.
func Below(root string, list ...Mount) error {
	for _, m := range list {
		target := filepath.Join(root, m.Target)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", m.Target, err)
		}
		if err := unix.Mount(m.Source, target, m.Kind, m.Flags, m.Data); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	return nil
}

// LinkDevices makes the links of /dev that programs expect, in place of what is
// there.
func LinkDevices(root string) error {
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx",
	} {
		link := filepath.Join(root, "dev", name)
		if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("replace %s: %w", link, err)
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}
