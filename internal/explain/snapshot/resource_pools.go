// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/printable"
)

// Pool is the devices of a driver that a node can reach.
type Pool struct {
	ID         PoolID
	Generation int64
	// Published is how many slices of the generation there are, and Wanted how
	// many they say there should be. While some are missing nothing of the pool
	// can be allocated.
	Published, Wanted int64
	// Incomplete says that slices are missing; Hidden names those that the allocator
	// ignores because a feature gate is off.
	Incomplete bool
	Hidden     []string
	// Invalid says what is wrong with a pool of which nothing can be allocated.
	Invalid string
	// Writers are who wrote the slices of a pool that is incomplete or invalid.
	Writers []string
	// Slices are those with devices for the node, sorted by name, and Others
	// those of the same pool with devices for other nodes.
	Slices, Others []*resourceapi.ResourceSlice
	// CounterSets are those of the pool by name.
	CounterSets map[string]*resourceapi.CounterSet
}

// Usable says whether devices can be allocated from the pool.
func (p *Pool) Usable() bool { return !p.Incomplete && p.Invalid == "" }

// Trouble says why nothing can be allocated from the pool, empty where something can. Two
// publishers, each with a pool of its own in mind, are a cause.
func (p *Pool) Trouble() string {
	var text string
	switch {
	case p.Incomplete:
		text = fmt.Sprintf("is incomplete: %d of %d slices of generation %d are published", p.Published, p.Wanted, p.Generation)
	case p.Invalid != "":
		text = "is invalid: " + p.Invalid
	}
	if len(p.Writers) > 1 {
		text += "; its slices were written by " + printable.Text(strings.Join(p.Writers, " and ")) + ", and a pool has one publisher"
	}
	return text
}

// Pools gathers the pools that a node can reach, in the order in which the
// allocator looks at them: by driver and pool name, and last those with devices
// that have binding conditions.
func (c *Cluster) Pools(node *corev1.Node) ([]*Pool, error) {
	newest := map[PoolID][]*resourceapi.ResourceSlice{}
	for _, kept := range slices.Concat(c.byNode[node.Name], c.shared) {
		slice := c.whole(kept)
		relevant, err := c.relevant(node, slice)
		if err != nil {
			return nil, err
		}
		if !relevant {
			continue
		}
		id := PoolID{slice.Spec.Driver, slice.Spec.Pool.Name}
		known := newest[id]
		switch {
		case len(known) == 0 || slice.Spec.Pool.Generation > known[0].Spec.Pool.Generation:
			newest[id] = []*resourceapi.ResourceSlice{slice}
		case slice.Spec.Pool.Generation == known[0].Spec.Pool.Generation:
			newest[id] = append(known, slice)
		}
	}
	var first, last []*Pool
	for id, published := range newest {
		pool := c.pool(id, published)
		switch {
		case pool == nil:
		case pool.binds():
			last = append(last, pool)
		default:
			first = append(first, pool)
		}
	}
	sortPools(first)
	sortPools(last)
	return append(first, last...), nil
}

// relevant says whether a slice has devices for the node.
func (c *Cluster) relevant(node *corev1.Node, slice *resourceapi.ResourceSlice) (bool, error) {
	spec := &slice.Spec
	if !c.Gates.PartitionableDevices && (spec.PerDeviceNodeSelection != nil || len(spec.SharedCounters) > 0) {
		return false, nil
	}
	if c.hidden(slice) {
		return false, nil
	}
	name, all := ptr.Deref(spec.NodeName, ""), ptr.Deref(spec.AllNodes, false)
	if name != "" || all || spec.NodeSelector != nil {
		matches, err := allocation.NodeMatches(c.Gates, node, name, all, spec.NodeSelector)
		if err != nil {
			return false, fmt.Errorf("ResourceSlice %s: %w", slice.Name, err)
		}
		return matches, nil
	}
	if !ptr.Deref(spec.PerDeviceNodeSelection, false) {
		return false, nil
	}
	for i := range spec.Devices {
		matches, err := c.DeviceOnNode(node, slice, &spec.Devices[i])
		if err != nil || matches {
			return matches, err
		}
	}
	return false, nil
}

// DeviceOnNode says whether the node can reach a device of a slice that has
// devices for it.
func (c *Cluster) DeviceOnNode(node *corev1.Node, slice *resourceapi.ResourceSlice, d *resourceapi.Device) (bool, error) {
	if !ptr.Deref(slice.Spec.PerDeviceNodeSelection, false) {
		return true, nil
	}
	matches, err := allocation.NodeMatches(c.Gates, node, ptr.Deref(d.NodeName, ""), ptr.Deref(d.AllNodes, false), d.NodeSelector)
	if err != nil {
		return false, fmt.Errorf("device %s of ResourceSlice %s: %w", d.Name, slice.Name, err)
	}
	return matches, nil
}

// hidden says whether the allocator leaves a slice out: it cannot evaluate
// compatibility groups while their gate is off.
func (c *Cluster) hidden(slice *resourceapi.ResourceSlice) bool {
	return !c.Gates.CompatibilityGroups && UsesCompatibilityGroups(slice)
}

// UsesCompatibilityGroups says whether a device of the slice may only be given
// out together with some others.
func UsesCompatibilityGroups(slice *resourceapi.ResourceSlice) bool {
	for _, d := range slice.Spec.Devices {
		for _, consumed := range d.ConsumesCounters {
			if len(consumed.CompatibilityGroups) > 0 {
				return true
			}
		}
	}
	return false
}

// pool makes a pool of the newest slices that are for a node. It is nil where a
// newer generation has nothing for the node: the slices are about to go.
func (c *Cluster) pool(id PoolID, published []*resourceapi.ResourceSlice) *Pool {
	p := &Pool{
		ID: id, Generation: published[0].Spec.Pool.Generation, Wanted: published[0].Spec.Pool.ResourceSliceCount,
		Published: int64(len(published)),
	}
	all := published
	if p.Published != p.Wanted {
		all = nil
		for _, kept := range c.byPool[id] {
			slice := c.whole(kept)
			switch {
			case slice.Spec.Pool.Generation > p.Generation:
				return nil
			case slice.Spec.Pool.Generation < p.Generation:
			case c.hidden(slice):
				p.Hidden = append(p.Hidden, slice.Name)
			default:
				all = append(all, slice)
			}
		}
		if p.Published = int64(len(all)); p.Published != p.Wanted {
			p.Incomplete = true
			p.Writers = writers(c.byPool[id])
			return p
		}
	}
	p.build(published, all, c.Gates.PartitionableDevices)
	if p.Invalid != "" {
		p.Writers = writers(c.byPool[id])
	}
	return p
}

// writers are those of slices.
func writers(all []*resourceapi.ResourceSlice) []string {
	var names []string
	for _, slice := range all {
		names = append(names, slicecodec.Writers(slice, time.Time{})...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *Pool) build(published, all []*resourceapi.ResourceSlice, partitionable bool) {
	forNode := map[string]bool{}
	var counters []*resourceapi.ResourceSlice
	for _, slice := range slices.SortedFunc(slices.Values(published), bySliceName) {
		forNode[slice.Name] = true
		if partitionable && len(slice.Spec.SharedCounters) > 0 {
			counters = append(counters, slice)
		} else {
			p.Slices = append(p.Slices, slice)
		}
	}
	for _, slice := range all {
		switch {
		case forNode[slice.Name]:
		case partitionable && len(slice.Spec.SharedCounters) > 0:
			counters = append(counters, slice)
		default:
			p.Others = append(p.Others, slice)
		}
	}
	if p.Invalid = p.twice(); p.Invalid != "" || !partitionable {
		return
	}
	if p.Invalid = p.gatherCounters(counters); p.Invalid != "" {
		return
	}
	p.Invalid = p.missingCounter()
}

// twice finds a device name that is there twice.
func (p *Pool) twice() string {
	names := map[string]bool{}
	for _, slice := range p.Slices {
		for _, d := range slice.Spec.Devices {
			if names[d.Name] {
				return fmt.Sprintf("two devices are called %q", d.Name)
			}
			names[d.Name] = true
		}
	}
	return ""
}

func (p *Pool) gatherCounters(from []*resourceapi.ResourceSlice) string {
	p.CounterSets = map[string]*resourceapi.CounterSet{}
	for _, slice := range from {
		for i := range slice.Spec.SharedCounters {
			set := &slice.Spec.SharedCounters[i]
			if p.CounterSets[set.Name] != nil {
				return fmt.Sprintf("two counter sets are called %q", set.Name)
			}
			p.CounterSets[set.Name] = set
		}
	}
	return ""
}

// missingCounter finds a device that consumes a counter which is not there.
func (p *Pool) missingCounter() string {
	for _, slice := range slices.Concat(p.Slices, p.Others) {
		for _, d := range slice.Spec.Devices {
			for _, consumed := range d.ConsumesCounters {
				set := p.CounterSets[consumed.CounterSet]
				if set == nil {
					return fmt.Sprintf("device %q consumes counters of set %q, which is not there", d.Name, consumed.CounterSet)
				}
				for name := range consumed.Counters {
					if _, found := set.Counters[name]; !found {
						return fmt.Sprintf("device %q consumes counter %q, which set %q does not have", d.Name, name, consumed.CounterSet)
					}
				}
			}
		}
	}
	return ""
}

// binds says whether a device of the pool has binding conditions: then the
// allocator looks at it last.
func (p *Pool) binds() bool {
	for _, slice := range p.Slices {
		for i := range slice.Spec.Devices {
			if p.Usable() && slice.Spec.Devices[i].BindingConditions != nil {
				return true
			}
		}
	}
	return false
}

func sortPools(pools []*Pool) {
	slices.SortFunc(pools, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(a.ID.Driver, b.ID.Driver), cmp.Compare(a.ID.Pool, b.ID.Pool))
	})
}

func bySliceName(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) }
