// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// noL3 is the cache of cores without one: they are one group.
const noL3 = -1

// Core is one physical core.
type Core struct {
	// Threads are its online CPUs, ascending.
	Threads []int
	// L3 is the id of its cache, unique within the machine; -1 without one.
	L3   int
	Type model.CoreType
}

// Topology is what placement needs of a machine. Make it once per scan of
// the machine; it is read only and may be shared.
type Topology struct {
	// Cores are ordered by their lowest CPU.
	Cores []Core
}

// NewTopology groups the online CPUs of a machine by physical core. A CPU whose
// core is unknown is a core of its own.
func NewTopology(m *model.Machine) *Topology {
	type key struct {
		id  model.CoreID
		cpu int // only where the core is unknown
	}
	index := make(map[key]int, len(m.CPUs))
	t := &Topology{}
	for _, c := range m.CPUs {
		if !c.Online {
			continue
		}
		k := key{cpu: c.ID}
		if c.Core != nil {
			k = key{id: *c.Core, cpu: -1}
		}
		i, known := index[k]
		if !known {
			i = len(t.Cores)
			index[k] = i
			t.Cores = append(t.Cores, newCore(c))
		}
		t.Cores[i].Threads = append(t.Cores[i].Threads, c.ID)
	}
	slices.SortFunc(t.Cores, func(a, b Core) int { return cmp.Compare(a.Threads[0], b.Threads[0]) })
	return t
}

func newCore(c model.CPU) Core {
	core := Core{L3: noL3, Type: c.CoreType()}
	if c.L3 != nil {
		core.L3 = *c.L3
	}
	return core
}

// candidate is what a request may take of one core.
type candidate struct {
	free []int
	l3   int
	// whole: every thread of the core is free, so that taking all of it breaks
	// nothing.
	whole bool
	core  *Core
}

// candidates are the cores with free threads, in the topology's order.
func (t *Topology) candidates(free cpuset.CPUSet) []candidate {
	list := make([]candidate, 0, len(t.Cores))
	for i := range t.Cores {
		core := &t.Cores[i]
		c := candidate{l3: core.L3, core: core}
		for _, cpu := range core.Threads {
			if free.Contains(cpu) {
				c.free = append(c.free, cpu)
			}
		}
		if len(c.free) == 0 {
			continue
		}
		c.whole = len(c.free) == len(core.Threads)
		list = append(list, c)
	}
	return list
}
