// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ErrGone says that a group, or its process, ended meanwhile.
var ErrGone = errors.New("the control group is gone")

// ErrNoController says that a controller is off for a group.
var ErrNoController = errors.New("the controller is not enabled for it")

// Hierarchy is a host's control groups. Close it when done.
type Hierarchy struct {
	files   files
	unified bool
}

// Open looks at the directory where control groups are mounted, usually
// /sys/fs/cgroup. A host that mounts both versions has its controllers in
// version 1.
func Open(dir string) (*Hierarchy, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open control groups: %w", err)
	}
	_, unified := root.Stat("cgroup.controllers")
	_, split := root.Stat("cpuset/cpuset.cpus")
	if unified != nil && split != nil {
		return nil, errors.Join(
			fmt.Errorf("open control groups: %s has neither cgroup.controllers (version 2) nor cpuset/cpuset.cpus (version 1): want the host's mounted there", dir),
			root.Close())
	}
	f, err := newFiles(root)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open control groups: %w", err), root.Close())
	}
	return &Hierarchy{files: f, unified: unified == nil}, nil
}

// Close closes what Open opened.
func (h *Hierarchy) Close() error { return h.files.close() }

// Unified says whether this is version 2.
func (h *Hierarchy) Unified() bool { return h.unified }

// Group is one control group. It is a name: the group need not exist any more.
type Group struct {
	h *Hierarchy
	// path has no slash at either end; empty is the root group.
	path string
}

// Group finds a group by the path that the container runtime gives it
// (linux.cgroupsPath of the OCI runtime specification), in either of its forms.
func (h *Hierarchy) Group(runtimePath string) (Group, error) {
	path, err := expand(runtimePath)
	if err != nil {
		return Group{}, fmt.Errorf("control group %q: %w", runtimePath, err)
	}
	return Group{h: h, path: path}, nil
}

// String is the group's path below the hierarchy's root.
func (g Group) String() string { return "/" + g.path }

// IsRoot says whether there is no group around this one.
func (g Group) IsRoot() bool { return g.path == "" }

// Parent is the group around this one, such as a container's pod. The root's
// parent is the root.
func (g Group) Parent() Group {
	i := strings.LastIndexByte(g.path, '/')
	return Group{h: g.h, path: g.path[:max(i, 0)]}
}

// file is a controller's file of the group, below the root.
func (g Group) file(controller, name string) string {
	if g.h.unified {
		return join(g.path, name)
	}
	return join(controller, g.path, name)
}

func join(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, "/")
}

func (g Group) read(controller, name string) (string, error) {
	text, err := g.h.files.read(g.file(controller, name))
	if err != nil {
		return "", g.explain(controller, name, err)
	}
	return strings.TrimSpace(text), nil
}

// write overwrites a file of the kernel's: it makes none.
func (g Group) write(controller, name, value string) error {
	if err := g.h.files.write(g.file(controller, name), value); err != nil {
		return fmt.Errorf("write %q: %w", value, g.explain(controller, name, err))
	}
	return nil
}

// explain tells a group that ended from a controller that is off.
func (g Group) explain(controller, name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("control group %s: %w", g, ErrGone)
	case errors.Is(err, fs.ErrNotExist):
		if !g.h.files.exists(g.file(controller, "cgroup.procs")) {
			return fmt.Errorf("control group %s: %w", g, ErrGone)
		}
		return fmt.Errorf("control group %s has no %s, since %w: want %s in cgroup.subtree_control of the group above", g, name, ErrNoController, controller)
	}
	return fmt.Errorf("control group %s: %s: %w", g, name, err)
}

// expand turns a runtime's path into directories. The cgroupfs driver says
// /kubepods/burstable/pod1/abc; the systemd driver says slice:prefix:name, where
// a slice a-b.slice lies in a.slice, and the container is prefix-name.scope
// (systemd.slice(5)).
func expand(runtimePath string) (string, error) {
	path := strings.Trim(runtimePath, "/")
	if strings.Count(path, ":") == 2 {
		part := strings.Split(path, ":")
		slice, err := expandSlice(part[0])
		if err != nil {
			return "", err
		}
		if part[2] == "" {
			return "", errors.New("names no unit: want slice:prefix:name")
		}
		unit := part[2]
		if !strings.HasSuffix(unit, ".slice") {
			unit = strings.TrimPrefix(part[1]+"-"+unit, "-") + ".scope"
		}
		path = join(slice, unit)
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." || path != "" && part == "" {
			return "", errors.New("want a path without empty parts and without . or .. in it")
		}
	}
	return path, nil
}

// expandSlice turns a-b.slice into a.slice/a-b.slice.
func expandSlice(slice string) (string, error) {
	if slice == "" || slice == "-.slice" {
		return "", nil
	}
	name, ok := strings.CutSuffix(slice, ".slice")
	if !ok || strings.Contains(name, "/") {
		return "", fmt.Errorf("slice %q: want a name that ends in .slice", slice)
	}
	var parts []string
	for i, part := range strings.Split(name, "-") {
		if part == "" {
			return "", fmt.Errorf("slice %q: want words with single hyphens between", slice)
		}
		if i > 0 {
			part = strings.TrimSuffix(parts[i-1], ".slice") + "-" + part
		}
		parts = append(parts, part+".slice")
	}
	return strings.Join(parts, "/"), nil
}
