// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// groups are the folders of the node's control groups, one for each hierarchy.
// Below them everything is the node's own; above, nothing is touched.
type groups []string

// hierarchy is one line of /proc/self/cgroup (cgroups(7)).
type hierarchy struct {
	// mount is its folder below /sys/fs/cgroup; options are mount(2)'s.
	mount, options string
	// own is this process's group.
	own string
}

// hierarchies reads what this host has: version 1, a folder for each
// controller, with or without a version 2 beside them, or version 2 alone.
func hierarchies() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var list []hierarchy
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("read /proc/self/cgroup: line %q", lines.Text())
		}
		h := hierarchy{mount: strings.TrimPrefix(fields[1], "name="), options: fields[1], own: fields[2]}
		if fields[1] == "" {
			if h.mount = "unified"; !exists("/sys/fs/cgroup/unified") {
				h.mount = "."
			}
		}
		if exists(filepath.Join("/sys/fs/cgroup", h.mount)) {
			list = append(list, h)
		}
	}
	return list, nil
}

// Folders in which a node's control groups lie, below /sys/fs/cgroup.
const (
	// UnifiedFolder is that of version 2.
	UnifiedFolder = "/sys/fs/cgroup"
	pidsFolder    = "/sys/fs/cgroup/pids"
)

// GroupsFolder is where the kubelet of a node on this host keeps its pods'
// groups; one hierarchy of version 1 stands for all.
func GroupsFolder() string {
	if exists(pidsFolder) {
		return pidsFolder
	}
	return UnifiedFolder
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// write records the groups for whoever stops the node, should its outer process
// not have lived to remove them.
func (g groups) write(dir string) error {
	return os.WriteFile(filepath.Join(dir, groupsFile), []byte(strings.Join(g, "\n")), 0o644)
}

// readGroups returns the groups of the node in dir; none where it never ran.
func readGroups(dir string) (groups, error) {
	text, err := os.ReadFile(filepath.Join(dir, groupsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}

// makeGroups makes a group called name below this process's own in every
// hierarchy, and moves this process into it.
func makeGroups(name string) (groups, error) {
	list, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var made groups
	for _, h := range list {
		parent := filepath.Join("/sys/fs/cgroup", h.mount, h.own)
		group := filepath.Join(parent, name)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return made, fmt.Errorf("make control group: %w", err)
		}
		made = append(made, group)
		// A new cpuset has no CPUs and takes no process (cgroup-v1/cpusets).
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if text, err := os.ReadFile(filepath.Join(parent, file)); err == nil && strings.Contains(h.mount, "cpuset") {
				if err := os.WriteFile(filepath.Join(group, file), bytes.TrimSpace(text), 0); err != nil {
					return made, fmt.Errorf("share %s: %w", file, err)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
			return made, fmt.Errorf("enter control group: %w", err)
		}
	}
	return made, nil
}

// leave moves this process out of the groups again.
func (g groups) leave() error {
	var errs []error
	for _, group := range g {
		errs = append(errs, os.WriteFile(filepath.Join(filepath.Dir(group), "cgroup.procs"), []byte("0"), 0))
	}
	return errors.Join(errs...)
}

// remove removes the groups with all below. Those that are gone are no error.
func (g groups) remove() error {
	var errs []error
	for _, group := range g {
		if !exists(group) {
			continue
		}
		var folders []string
		errs = append(errs, filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return err
		}))
		slices.Reverse(folders)
		for _, folder := range folders {
			errs = append(errs, removeGroup(folder))
		}
	}
	return errors.Join(errs...)
}

// removeGroup waits for the kernel to be done with what has just ended there.
func removeGroup(folder string) error {
	var err error
	for range 50 {
		if err = os.Remove(folder); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
