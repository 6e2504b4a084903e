// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// mounts are the node's file systems, below its root. Everything that may grow
// is memory: an overlay needs an upper folder that is no overlay itself.
var mounts = []mount{
	{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"dev", "/dev", "tmpfs", unix.MS_NOSUID, "mode=0755"},
	{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"},
	{"shm", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, ""},
	{"mqueue", "/dev/mqueue", "mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	{"tmp", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	{"state", "/var/lib", "tmpfs", 0, "mode=0755"},
	{"log", "/var/log", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	{"bpf", "/sys/fs/bpf", "bpf", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "mode=0700"},
}

// devices are those of the host that the node sees: none of hardware.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg"}

// enterRoot makes the node's own files the root and lets go of the host's.
func enterRoot(dir string) error {
	root := filepath.Join(dir, rootDir)
	// Nothing done here may reach the host's mounts.
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("part from the host's mounts: %w", err)
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the root: %w", err)
	}
	for _, m := range mounts {
		if err := mountBelow(root, m); err != nil {
			return err
		}
	}
	if err := mountGroups(root); err != nil {
		return err
	}
	for _, name := range devices {
		target := filepath.Join(root, "dev", name)
		if err := os.WriteFile(target, nil, 0o600); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind device %s: %w", name, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(root, "dev", name)); err != nil {
			return err
		}
	}
	if err := mountBelow(root, mount{dir, stateDir, "", unix.MS_BIND, ""}); err != nil {
		return err
	}
	return pivot(root)
}

func mountBelow(root string, m mount) error {
	target := filepath.Join(root, m.target)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", m.target, err)
	}
	if err := unix.Mount(m.source, target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s: %w", m.target, err)
	}
	return nil
}

// mountGroups mounts the hierarchies anew: in a namespace of its own the node's
// groups are their roots (cgroup_namespaces(7)).
func mountGroups(root string) error {
	list, err := hierarchies()
	if err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if len(list) > 1 {
		if err := mountBelow(root, mount{"cgroup", "/sys/fs/cgroup", "tmpfs", flags, "mode=0755"}); err != nil {
			return err
		}
	}
	for _, h := range list {
		m := mount{"cgroup", filepath.Join("/sys/fs/cgroup", h.mount), "cgroup", flags, h.options}
		if h.options == "" {
			m.kind = "cgroup2"
		}
		if err := mountBelow(root, m); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes root the root (pivot_root(2): the old one is put over the new one
// and let go).
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the host's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	// The kubelet's volumes and containerd's sandboxes share mounts.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share the root: %w", err)
	}
	return nil
}
