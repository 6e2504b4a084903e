// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"
	"k8s.io/utils/cpuset"
)

// Release lets the group's tasks run on all CPUs of the group around it, and says how
// many sets it wrote. Memory nodes stay.
func (g Group) Release() (writes int, err error) {
	have, err := g.set("cpuset.cpus")
	if err != nil {
		return 0, err
	}
	if g.h.unified {
		if have.IsEmpty() {
			return 0, nil
		}
		// An empty line removes the set (kernel/cgroup/cpuset.c, update_cpumask).
		if err := g.write(controllerCPUSet, "cpuset.cpus", "\n"); !errors.Is(err, unix.ENOSPC) {
			return 1, err
		}
		// Older kernels, such as Linux 6.1, refuse to empty the set of a group with
		// tasks (validate_change): all CPUs of the group around have the same effect.
		around, err := g.Parent().Effective()
		if err != nil || around.CPUs.Equals(have) {
			return 0, err
		}
		return 1, g.write(controllerCPUSet, "cpuset.cpus", around.CPUs.String())
	}
	// In version 1 no set may be empty.
	around, err := g.Parent().set("cpuset.cpus")
	if err != nil || around.Equals(have) {
		return 0, err
	}
	return 1, g.write(controllerCPUSet, "cpuset.cpus", around.String())
}

// WidenAncestors widens the groups around this one until they allow p, and says how
// many sets it wrote. Version 1 refuses a set that the group around does not
// have, and writes each set out when the group is made, so that CPUs which came
// online later are missing. In version 2 a group has a set only where an administrator
// or the kubelet wrote one, which stays: Effective tells what it leaves.
func (g Group) WidenAncestors(p Placement) (writes int, err error) {
	if g.h.unified || g.IsRoot() || g.Parent().IsRoot() {
		return 0, nil
	}
	parent := g.Parent()
	// From the outside in: no group may have what the one around it lacks.
	if writes, err = parent.WidenAncestors(p); err != nil {
		return writes, err
	}
	have, err := parent.Placement()
	if err != nil {
		return writes, err
	}
	n, err := parent.Place(Placement{CPUs: union(have.CPUs, p.CPUs), Mems: union(have.Mems, p.Mems)})
	return writes + n, err
}

func union(have, want cpuset.CPUSet) cpuset.CPUSet {
	if want.IsEmpty() {
		return cpuset.New() // nothing to add
	}
	return have.Union(want)
}
