// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/machine/facts"
	"plumbline.dev/plumbline/internal/machine/systree"
)

// Render makes the sysfs tree of a machine from its facts: what Linux would
// show below /sys on it, as far as inventory and hwloc read it. What the facts lack is
// filled in by one rule each, documented where it is applied; a sourced value is never
// changed.
func Render(f *facts.Facts) (*systree.Tree, error) {
	r := &renderer{tree: systree.New(), facts: f, nodes: f.Nodes()}
	for _, n := range r.nodes {
		for _, id := range n.CPUs.UnsortedList() {
			r.highestCPU = max(r.highestCPU, id)
		}
	}
	r.renderNodes()
	r.renderCPUs()
	functions, err := planPCI(f)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", f.Name, err)
	}
	r.renderPCI(functions)
	r.renderNICs(functions)
	if r.err != nil {
		return nil, fmt.Errorf("render %s: %w", f.Name, r.err)
	}
	return r.tree, nil
}

// renderer builds the tree; after the first error, which it keeps, it does nothing.
type renderer struct {
	tree  *systree.Tree
	facts *facts.Facts
	nodes []facts.Node
	// highestCPU decides how wide bitmaps are.
	highestCPU int
	err        error
}

// file adds an attribute of one line, ended as the kernel ends it.
func (r *renderer) file(name, value string) { r.raw(name, value+"\n") }

func (r *renderer) number(name string, value int) { r.file(name, strconv.Itoa(value)) }

func (r *renderer) raw(name, content string) {
	if r.err == nil {
		r.err = r.tree.AddFile(name, content)
	}
}

func (r *renderer) link(name, target string) {
	if r.err == nil {
		r.err = r.tree.AddLink(name, target)
	}
}

// cpus are the CPUs of a node; of all nodes when id is nil, as in the kernel's
// local_cpus of a device whose node is unknown.
func (r *renderer) cpus(id *int) cpuSet {
	return r.union(func(n facts.Node) bool { return id == nil || n.ID == *id })
}

// union is the CPUs of some nodes.
func (r *renderer) union(include func(facts.Node) bool) cpuSet {
	var ids []int
	for _, n := range r.nodes {
		if include(n) {
			ids = append(ids, n.CPUs.UnsortedList()...)
		}
	}
	return r.text(cpuset.New(ids...))
}

// cpuSet is a set of CPUs in the kernel's two forms, made once for the many
// files that show it.
type cpuSet struct{ mask, list string }

// text makes both forms. The mask is groups of 32 bits, highest first, as wide
// as the machine (lib/vsprintf.c, bitmap_string).
func (r *renderer) text(set cpuset.CPUSet) cpuSet {
	words := make([]uint32, r.highestCPU/32+1)
	for _, id := range set.UnsortedList() {
		words[len(words)-1-id/32] |= 1 << (id % 32)
	}
	var mask strings.Builder
	for i, word := range words {
		if i > 0 {
			mask.WriteByte(',')
		}
		fmt.Fprintf(&mask, "%08x", word)
	}
	return cpuSet{mask: mask.String(), list: set.String()}
}

// both adds a set as a mask and as a list beside it.
func (r *renderer) both(mask, list string, set cpuSet) {
	r.file(mask, set.mask)
	r.file(list, set.list)
}
