// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/lab/mounts"
)

// fileSystems are the node's. Everything that may grow is memory: an overlay needs
// an upper folder that is no overlay itself.
var fileSystems = mounts.Node(
	mounts.Mount{Source: "dev", Target: "/dev", Kind: "tmpfs", Flags: unix.MS_NOSUID, Data: "mode=0755"},
	mounts.Mount{Source: "state", Target: "/var/lib", Kind: "tmpfs", Data: "mode=0755"},
	mounts.Mount{Source: "log", Target: "/var/log", Kind: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=0755"},
)

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
	if err := mounts.Below(root, fileSystems...); err != nil {
		return err
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
	if err := mounts.LinkDevices(root); err != nil {
		return err
	}
	if err := mounts.Below(root, mounts.Mount{Source: dir, Target: stateDir, Flags: unix.MS_BIND}); err != nil {
		return err
	}
	return pivot(root)
}

// mountGroups mounts the hierarchies anew: in a namespace of its own the node's
// groups are their roots (cgroup_namespaces(7)).
func mountGroups(root string) error {
	list, err := hierarchies()
	if err != nil {
		return err
	}
	if len(list) > 1 {
		if err := mounts.Below(root, mounts.Mount{Source: "cgroup", Target: "/sys/fs/cgroup", Kind: "tmpfs", Flags: mounts.Plain, Data: "mode=0755"}); err != nil {
			return err
		}
	}
	for _, h := range list {
		m := mounts.Mount{
			Source: "cgroup", Target: filepath.Join("/sys/fs/cgroup", h.mount), Kind: "cgroup",
			Flags: mounts.Plain, Data: h.options,
		}
		if h.options == "" {
			m.Kind = "cgroup2"
		}
		if err := mounts.Below(root, m); err != nil {
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
