// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/host/procfs"
)

// groupDepth is how far below the root a pod's control group may lie:
// /kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice.
const groupDepth = 5

func (r *Reader) groupRoot() string { return filepath.Join(r.options.Sys, "fs/cgroup") }

// cpusetRoot is where control groups of the cpuset controller lie.
func (r *Reader) cpusetRoot() string {
	if r.groups.Unified() {
		return r.groupRoot()
	}
	return filepath.Join(r.groupRoot(), "cpuset")
}

// granted reads what the container's control group grants, and where its memory
// lies.
func (r *Reader) granted(c *Container, podUID string) {
	if r.groups == nil {
		c.GrantedErr = r.noGroup
		return
	}
	path, err := r.findGroup(podUID, c.ID)
	if err != nil {
		c.GrantedErr = err
		return
	}
	group, err := r.groups.Group(path)
	if err != nil {
		c.GrantedErr = err
		return
	}
	effective, err := group.Effective()
	c.Granted, c.GrantedErr = Sets{CPUs: effective.CPUs, Mems: effective.Mems}, err
	if !r.detail {
		return
	}
	if text, err := os.ReadFile(filepath.Join(r.groupRoot(), path, "memory.numa_stat")); err == nil {
		c.MemoryBytes = procfs.ParseNUMAStat(text)
	}
}

// findGroup finds a container's control group. The path in /proc/PID/cgroup
// starts at the reader's own group where it has a namespace of its own, so names
// are looked for in the tree: a pod's has its UID, a container's its id.
func (r *Reader) findGroup(podUID, id string) (string, error) {
	for attempt := range 2 {
		for _, parent := range r.parents {
			if path, ok := r.groupBelow(parent, podUID, id); ok {
				return path, nil
			}
		}
		if attempt == 0 {
			r.parents = nil
			r.findParents("", groupDepth)
		}
	}
	return "", errors.New("the container's control group was not found")
}

// groupBelow looks for a pod's container among the groups of one directory.
func (r *Reader) groupBelow(parent, podUID, id string) (string, bool) {
	for _, pod := range podGroupNames(parent, podUID) {
		dir := filepath.Join(parent, pod)
		for _, name := range r.groupsIn(dir) {
			if strings.Contains(name, id) {
				return filepath.Join(dir, name), true
			}
		}
	}
	return "", false
}

// podGroupNames are what the kubelet calls a pod's group in a directory: with
// the cgroupfs driver podUID, with systemd's the whole path in words
// (pkg/kubelet/cm/cgroup_manager_linux.go).
func podGroupNames(parent, uid string) []string {
	slice := strings.TrimSuffix(filepath.Base(parent), ".slice")
	return []string{"pod" + uid, fmt.Sprintf("%s-pod%s.slice", slice, strings.ReplaceAll(uid, "-", "_"))}
}

// findParents lists the directories that hold pods' groups.
func (r *Reader) findParents(dir string, depth int) {
	names := r.groupsIn(dir)
	if slices.ContainsFunc(names, isPodGroup) {
		r.parents = append(r.parents, dir)
	}
	if depth == 0 {
		return
	}
	for _, name := range names {
		if !isPodGroup(name) {
			r.findParents(filepath.Join(dir, name), depth-1)
		}
	}
}

func isPodGroup(name string) bool {
	return strings.HasPrefix(name, "pod") || strings.Contains(name, "-pod") && strings.HasSuffix(name, ".slice")
}

// groupsIn lists the groups in a group, none where it is gone.
func (r *Reader) groupsIn(dir string) []string {
	entries, err := os.ReadDir(filepath.Join(r.cpusetRoot(), dir))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
