// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"io/fs"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/machine/facts"
	"plumbline.dev/plumbline/internal/machine/recording"
	"plumbline.dev/plumbline/internal/machine/render"
	"plumbline.dev/plumbline/internal/machine/systree"
)

// Facts are what a facts file says of a machine.
type Facts = facts.Facts

// Device is a GPU or NIC of a facts file.
type Device = facts.Device

// RootFacts are what a facts file says of a PCI root.
type RootFacts = facts.RootFacts

// Tree is a sysfs tree in memory.
type Tree = systree.Tree

// Names lists the shipped machines, sorted.
func Names() []string { return facts.Names() }

// OpenFacts reads a facts file: a shipped machine by name, or a path. The error joins
// all *facts.Problems.
func OpenFacts(nameOrPath string) (*Facts, error) { return facts.Open(nameOrPath) }

// Render makes the tree that Linux would show of a machine.
func Render(f *Facts) (*Tree, error) { return render.Render(f) }

// RecordOptions are the parameters of Record.
type RecordOptions struct {
	// Name and Arch are written into the recording; both may be empty.
	Name, Arch string
	// Private also records hardware addresses, GUIDs and interface aliases.
	Private bool
}

// Record writes a tree like /sys as the text of a recording. What cannot be read is
// left out, and returned as a problem.
func Record(ctx context.Context, sys fs.FS, o RecordOptions) ([]byte, []sysfs.Problem, error) {
	tree, problems, err := recording.Record(ctx, sys, recording.Options{Private: o.Private})
	if err != nil {
		return nil, nil, err
	}
	r := recording.Recording{Name: o.Name, Arch: o.Arch, Tree: tree}
	return r.Encode(), problems, nil
}

// File is a machine file of either kind, as a tree.
type File struct {
	// Name is the machine's; empty for a recording without one.
	Name string
	// Arch is uname's, such as x86_64; empty when unknown.
	Arch string
	// Source says in words what was read, such as "machine file NAME".
	Source string
	Tree   *Tree
	// Facts is nil for a recording.
	Facts *Facts
}

// Open reads a machine file of either kind: a shipped machine by name, or a
// path.
func Open(nameOrPath string) (*File, error) {
	source, err := facts.ReadSource(nameOrPath)
	if err != nil {
		return nil, err
	}
	if recording.Is(source.Data) {
		r, err := recording.Parse(source.Data, source.Name)
		if err != nil {
			return nil, err
		}
		return &File{Name: r.Name, Arch: r.Arch, Source: "recording " + source.Name, Tree: r.Tree}, nil
	}
	f, err := facts.Parse(source.Data, source.Name)
	if err != nil {
		return nil, err
	}
	tree, err := render.Render(f)
	if err != nil {
		return nil, err
	}
	return &File{Name: f.Name, Arch: f.Arch, Source: "machine file " + source.Name, Tree: tree, Facts: f}, nil
}
