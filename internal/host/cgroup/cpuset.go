// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"

	"k8s.io/utils/cpuset"
)

const controllerCPUSet = "cpuset"

// Placement is where tasks may run and allocate memory. With an empty set that of the
// group around applies.
type Placement struct {
	CPUs, Mems cpuset.CPUSet
}

// Equal compares sets.
func (p Placement) Equal(q Placement) bool { return p.CPUs.Equals(q.CPUs) && p.Mems.Equals(q.Mems) }

// String is such as "CPUs 2-5, memory nodes 0".
func (p Placement) String() string {
	return fmt.Sprintf("CPUs %s, memory nodes %s", orAny(p.CPUs), orAny(p.Mems))
}

func orAny(s cpuset.CPUSet) string {
	if s.IsEmpty() {
		return "any"
	}
	return s.String()
}

// Placement is what was written (cpuset.cpus, cpuset.mems).
func (g Group) Placement() (Placement, error) { return g.placement("cpuset.cpus", "cpuset.mems") }

// Effective is what the kernel grants (cpuset.cpus.effective): what was written, less
// what the groups around do not have and what is offline.
func (g Group) Effective() (Placement, error) {
	if g.h.unified {
		return g.placement("cpuset.cpus.effective", "cpuset.mems.effective")
	}
	return g.placement("cpuset.effective_cpus", "cpuset.effective_mems")
}

func (g Group) placement(cpus, mems string) (p Placement, err error) {
	if p.CPUs, err = g.set(cpus); err != nil {
		return Placement{}, err
	}
	if p.Mems, err = g.set(mems); err != nil {
		return Placement{}, err
	}
	return p, nil
}

func (g Group) set(name string) (cpuset.CPUSet, error) {
	text, err := g.read(controllerCPUSet, name)
	if err != nil {
		return cpuset.New(), err
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.New(), fmt.Errorf("control group %s: %s: %w", g, name, err)
	}
	return set, nil
}

// Place writes the sets of p that are not empty and not there already, and says
// how many it wrote. The kernel moves tasks that run elsewhere at once, and the
// memory of new allocations; pages that are there stay.
func (g Group) Place(p Placement) (writes int, err error) {
	have, err := g.Placement()
	if err != nil {
		return 0, err
	}
	return g.Write(p.Sets().less(have.Sets()))
}

// Sets is a Placement as the kernel writes it.
type Sets struct{ CPUs, Mems string }

// Sets formats a placement once for many groups: for 512 CPUs that takes longer than
// writing the file.
func (p Placement) Sets() Sets { return Sets{CPUs: p.CPUs.String(), Mems: p.Mems.String()} }

// less leaves out the sets that are equal to have's.
func (s Sets) less(have Sets) Sets {
	if s.CPUs == have.CPUs {
		s.CPUs = ""
	}
	if s.Mems == have.Mems {
		s.Mems = ""
	}
	return s
}

// Write is Place without reading first: it writes the sets that are not empty.
func (g Group) Write(s Sets) (writes int, err error) {
	// Memory first: version 1 refuses tasks in a group without memory nodes.
	for _, f := range []struct{ name, text string }{{"cpuset.mems", s.Mems}, {"cpuset.cpus", s.CPUs}} {
		if f.text == "" {
			continue
		}
		if err := g.write(controllerCPUSet, f.name, f.text); err != nil {
			return writes, err
		}
		writes++
	}
	return writes, nil
}
