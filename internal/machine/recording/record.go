// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"syscall"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/machine/systree"
)

// Options are the parameters of Record.
type Options struct {
	// Private also records hardware addresses, GUIDs and interface aliases.
	Private bool
}

// Record copies what a recording contains from a tree like /sys. What cannot be read is
// left out, and returned as a problem; the error is for a tree that is not like /sys.
func Record(ctx context.Context, sys fs.FS, o Options) (*systree.Tree, []sysfs.Problem, error) {
	if _, err := fs.Stat(sys, "devices"); err != nil {
		return nil, nil, fmt.Errorf("record the machine: want a directory like /sys: %w", err)
	}
	r := &recorder{sys: sys, tree: systree.New(), options: o, names: map[string]string{}}
	for _, g := range recorded {
		dirs, err := fs.Glob(sys, g.dirs)
		if err != nil {
			return nil, nil, fmt.Errorf("record %s: %w", g.dirs, err)
		}
		for _, dir := range dirs {
			if err := ctx.Err(); err != nil {
				return nil, nil, fmt.Errorf("record the machine: %w", err)
			}
			r.directory(g, dir)
		}
	}
	return r.tree, r.problems, nil
}

type recorder struct {
	sys      fs.FS
	tree     *systree.Tree
	options  Options
	problems []sysfs.Problem
	names    map[string]string // interface names that hold an address
}

func (r *recorder) problem(name string, err error) {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	r.problems = append(r.problems, sysfs.Problem{Path: strings.ToValidUTF8(name, "\uFFFD"), Err: fmt.Errorf("left out: %w", err)})
}

// directory records one directory of a group; dir may be a link to it.
func (r *recorder) directory(g group, dir string) {
	at := dir
	if target, err := r.readLink(dir); err == nil {
		if g.except != "" && strings.HasPrefix(target, g.except+"/") {
			return
		}
		if !strings.HasPrefix(target, "devices/") {
			r.problem(dir, fmt.Errorf("leads to %q, want a directory below devices", target))
			return
		}
		if !r.add(r.tree.AddLink(r.public(dir), r.public(target)), dir) || !r.add(r.tree.AddDir(r.public(target)), target) {
			return
		}
		at = target
	}
	for _, file := range g.files {
		r.file(path.Join(at, file), maxAttributeBytes)
	}
	for _, file := range g.binary {
		r.file(path.Join(at, file), configBytes)
	}
	if r.options.Private {
		for _, file := range g.private {
			r.file(path.Join(at, file), maxAttributeBytes)
		}
	}
	for _, link := range g.links {
		for _, name := range r.links(path.Join(at, link)) {
			r.link(name)
		}
	}
}

// links are what a pattern matches; a name without one matches itself, there or not.
func (r *recorder) links(pattern string) []string {
	if !strings.ContainsRune(pattern, '*') {
		return []string{pattern}
	}
	names, err := fs.Glob(r.sys, pattern)
	if err != nil {
		r.problem(pattern, err)
	}
	return names
}

// maxAttributeBytes is above one page: the bitmaps of large machines are
// binary attributes (drivers/base/node.c).
const maxAttributeBytes = 1 << 16

func (r *recorder) file(name string, limit int64) {
	f, err := r.sys.Open(name)
	if err != nil {
		r.unreadable(name, err)
		return
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		r.unreadable(name, err)
		return
	}
	text := string(content)
	switch path.Base(name) {
	case memoryFile:
		text = totalOnly(text)
	case "parent", "0": // the interface an RDMA device sits on
		text = r.publicName(strings.TrimSuffix(text, "\n")) + "\n"
	}
	r.add(r.tree.AddFile(r.public(name), text), name)
}

func (r *recorder) link(name string) {
	target, err := r.readLink(name)
	if err != nil {
		r.unreadable(name, err)
		return
	}
	if r.add(r.tree.AddLink(r.public(name), r.public(target)), name) {
		r.add(r.tree.AddDir(r.public(target)), target)
	}
}

func (r *recorder) add(err error, name string) bool {
	if err != nil {
		r.problem(name, err)
	}
	return err == nil
}

// unreadable records a problem, unless the file does not exist or has no value at
// present.
func (r *recorder) unreadable(name string, err error) {
	for _, silent := range []error{
		fs.ErrNotExist, syscall.EINVAL, syscall.ENODEV, syscall.ENXIO, syscall.EOPNOTSUPP, syscall.ENOTDIR,
	} {
		if errors.Is(err, silent) {
			return
		}
	}
	r.problem(name, err)
}

// readLink returns where a link leads, below /sys.
func (r *recorder) readLink(name string) (string, error) {
	target, err := fs.ReadLink(r.sys, name)
	if err != nil {
		return "", err
	}
	return path.Join(path.Dir(name), target), nil
}

// totalOnly keeps the MemTotal line of a node's meminfo.
func totalOnly(text string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, "MemTotal:") {
			return line
		}
	}
	return ""
}

// addressName is an interface named after its hardware address, as udev does
// for USB adapters.
var addressName = regexp.MustCompile(`^(en|ib|sl|wl|ww)x[0-9a-f]{12}$`)

// publicName is the name of an interface, without an address in it.
func (r *recorder) publicName(name string) string {
	m := addressName.FindStringSubmatch(name)
	if m == nil || r.options.Private {
		return name
	}
	if r.names[name] == "" {
		r.names[name] = fmt.Sprintf("%sx%012d", m[1], len(r.names)+1)
	}
	return r.names[name]
}

func (r *recorder) public(name string) string {
	elements := strings.Split(name, "/")
	for i := range elements {
		elements[i] = r.publicName(elements[i])
	}
	return strings.Join(elements, "/")
}
