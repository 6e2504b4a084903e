// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/lab/mounts"
)

// namespaces are all that a node has to itself.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWCGROUP

// Check says why this host can have no node, nil if it can. It makes and removes
// what a node needs most: control groups, namespaces, and mounts in them. program
// is plumblab, which starts itself again in the namespaces.
func Check(ctx context.Context, program string) error {
	if os.Geteuid() != 0 {
		return errors.New("a node on this host makes namespaces and control groups, which takes root")
	}
	list, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range list {
		group := filepath.Join("/sys/fs/cgroup", h.mount, h.own, fmt.Sprintf("plumblab-check-%d", os.Getpid()))
		if err := os.Mkdir(group, 0o755); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
		if err := removeGroup(group); err != nil {
			return fmt.Errorf("remove control group: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, program, Command, "--check", "/")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make namespaces and mounts: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// CheckInside tries the mounts of a node, in namespaces of its own.
func CheckInside() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("part from the host's mounts: %w", err)
	}
	root := os.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	for _, dir := range []string{"proc", "sys", "lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", root)
	err := mounts.Below(root,
		mounts.Mount{Source: "proc", Target: "/proc", Kind: "proc"},
		mounts.Mount{Source: "sysfs", Target: "/sys", Kind: "sysfs"},
		mounts.Mount{Source: "overlay", Target: "/merged", Kind: "overlay", Data: layers})
	if err != nil {
		return err
	}
	return mountGroups(root)
}
