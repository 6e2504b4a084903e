// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"fmt"
	"slices"
	"strings"
)

// Variant is a claim that is like another one.
type Variant struct {
	Options
	// Flags are those of the command line that make the difference, such as
	// "--numa-nodes 2".
	Flags string
}

// mostParts is the most NUMA nodes or sockets that a claim is cut for unasked.
const mostParts = 8

// InParts are the claim in as many equal parts as its numbers can be cut in, the
// fewest first.
func (o *Options) InParts() []Options {
	var all []Options
	for n := 1; n <= mostParts; n *= 2 {
		part := *o
		if part.Align == Socket {
			part.Sockets = n
		} else {
			part.NUMANodes = n
		}
		if _, err := Spec(part); err == nil {
			all = append(all, part)
		}
	}
	return all
}

// Variants are claims to have instead where this one cannot be had: first those
// for as much that want less of it together, then those for less.
func (o *Options) Variants() []Variant {
	var all []Variant
	seen := map[string]bool{"": true}
	for _, less := range o.lesser() {
		for _, looser := range less.looser() {
			for _, v := range looser.InParts() {
				if flags := v.flagsBeyond(o); !seen[flags] {
					seen[flags] = true
					all = append(all, Variant{v, flags})
				}
			}
		}
	}
	return all
}

// looser are the claim, and those whose devices are farther from each other.
func (o *Options) looser() []Options {
	all := []Options{*o}
	add := func(change func(*Options)) {
		looser := *o
		change(&looser)
		all = append(all, looser)
	}
	if o.Align != PCIe {
		return all
	}
	if len(o.Fallback) == 0 && o.paired() {
		add(func(l *Options) { l.Fallback = []string{NUMA} })
	}
	add(func(l *Options) { l.Align, l.Fallback = NUMA, nil })
	if o.paired() && !slices.Contains(o.Fallback, Any) {
		add(func(l *Options) { l.Fallback = append(slices.Clone(o.Fallback), Any) })
	}
	return all
}

// lesser are the claim, and those that are content with less: with NICs that
// have no RDMA, with fewer NICs, or with fewer CPUs.
func (o *Options) lesser() []Options {
	all := []Options{*o}
	if o.NICs > 0 && !o.WithoutRDMA {
		without := *o
		without.WithoutRDMA = true
		all = append(all, without)
	}
	for _, by := range []int{2, 4} {
		if o.paired() && o.NICs%by == 0 {
			fewer := *o
			fewer.NICs /= by
			all = append(all, fewer)
		}
	}
	for _, by := range []int{2, 4} {
		if o.CPUs > by {
			fewer := *o
			fewer.CPUs /= by
			all = append(all, fewer)
		}
	}
	return all
}

// flagsBeyond are the flags in which the options differ from others.
func (o *Options) flagsBeyond(other *Options) string {
	var flags []string
	number := func(name string, has, had int) {
		if has != had {
			flags = append(flags, fmt.Sprintf("%s %d", name, has))
		}
	}
	number("--nics", o.NICs, other.NICs)
	number("--cpus", o.CPUs, other.CPUs)
	if o.Align != other.Align {
		flags = append(flags, "--align "+o.Align)
	}
	if !slices.Equal(o.Fallback, other.Fallback) && len(o.Fallback) > 0 {
		flags = append(flags, "--fallback "+strings.Join(o.Fallback, ","))
	}
	number("--numa-nodes", max(1, o.NUMANodes), max(1, other.NUMANodes))
	number("--sockets", max(1, o.Sockets), max(1, other.Sockets))
	if o.WithoutRDMA && !other.WithoutRDMA {
		flags = append(flags, "--any-nic")
	}
	return strings.Join(flags, " ")
}
