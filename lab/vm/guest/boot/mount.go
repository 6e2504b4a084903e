// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/lab/mounts"
)

var fileSystems = mounts.Node(
	mounts.Mount{Source: "devtmpfs", Target: "/dev", Kind: "devtmpfs", Flags: unix.MS_NOSUID, Data: "mode=0755"},
	// The kubelet measures the filesystems of these two, and knows tmpfs but
	// not the initramfs.
	mounts.Mount{Source: "kubelet", Target: "/var/lib/kubelet", Kind: "tmpfs", Flags: unix.MS_NODEV, Data: "mode=0750"},
	mounts.Mount{Source: "containerd", Target: "/var/lib/containerd", Kind: "tmpfs", Data: "mode=0710"},
	mounts.Mount{Source: "cgroup2", Target: "/sys/fs/cgroup", Kind: "cgroup2", Flags: mounts.Plain},
)

// leaveInitramfs puts a bind mount of the initramfs over itself and makes it
// the root. The files stay where the kernel unpacked them, but the root is now
// a mount with a parent, which pivot_root(2) demands and runc relies on.
func leaveInitramfs() error {
	const stage = "/newroot"
	if err := os.MkdirAll(stage, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", stage, err)
	}
	if err := unix.Mount("/", stage, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the initramfs: %w", err)
	}
	if err := unix.Chdir(stage); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the new root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	// The kubelet's volumes and containerd's sandboxes share mounts.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share the root: %w", err)
	}
	return unix.Chdir("/")
}

func mountAll() error {
	if err := mounts.Below("/", fileSystems...); err != nil {
		return err
	}
	return mounts.LinkDevices("/")
}

// openControllers lets child cgroups use every controller of the kernel
// (cgroup.subtree_control), cpuset and memory among them.
func openControllers() error {
	have, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return fmt.Errorf("read cgroup controllers: %w", err)
	}
	for _, name := range strings.Fields(string(have)) {
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+"+name), 0); err != nil {
			return fmt.Errorf("open cgroup controller %s: %w", name, err)
		}
	}
	return nil
}

// patchEarly has the kernel patch its own code now, while nothing else runs.
// The first cgroup with a CPU quota, a cpuset or a memory limit switches jump
// labels in the scheduler and the page allocator (kernel/sched/fair.c,
// cfs_bandwidth_usage_inc). QEMU 7.2, emulating several CPUs at once, can keep
// a translation of the instruction as it was in the middle of that, a
// breakpoint: then every CPU that comes by traps for ever, and the guest hangs
// (seen: all CPUs in propagate_entity_cfs_rq, the moment the first pod with a
// CPU limit started). A group that is never used keeps the labels as they are.
func patchEarly() error {
	const group = "/sys/fs/cgroup/plumblab-early"
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for file, value := range map[string]string{
		"cpu.max": "100000 100000", "cpuset.cpus": "0", "memory.max": "1048576", "pids.max": "1",
	} {
		if err := os.WriteFile(group+"/"+file, []byte(value), 0); err != nil {
			return fmt.Errorf("limit cgroup: %w", err)
		}
	}
	return nil
}
