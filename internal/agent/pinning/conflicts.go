// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// Conflicts says, by claim, why the CPUs of a record cannot be counted on: a
// record that cannot be read as the driver's, two records with the same CPU, CPUs
// that are offline or gone, CPUs that sit beside other memory than they did. pin
// is the driver's word on what a record gives. Nobody else gets such CPUs, whose
// containers stay where they are, and no container of such a claim starts.
func Conflicts(m *model.Machine, records []driver.Record, pin func(driver.Record) (driver.Pin, error)) map[types.UID]error {
	conflicts := map[types.UID]error{}
	owner := map[int]driver.Record{}
	for _, r := range records {
		given, err := pin(r)
		if err == nil {
			err = misfit(m, r, given)
		}
		if err != nil {
			conflicts[r.Claim.UID] = err
		}
		for _, cpu := range given.CPUs.UnsortedList() {
			other, taken := owner[cpu]
			if !taken {
				owner[cpu] = r
				continue
			}
			conflicts[r.Claim.UID] = sameCPUs(pin, r, other)
			conflicts[other.Claim.UID] = sameCPUs(pin, other, r)
		}
	}
	return conflicts
}

func sameCPUs(pin func(driver.Record) (driver.Pin, error), r, other driver.Record) error {
	mine, _ := pin(r) // both have CPUs, so both were read
	theirs, _ := pin(other)
	return fmt.Errorf("claim %s has CPUs %s and claim %s has CPUs %s, so %s would be used by both: want one of the two claims' pods deleted",
		r.Claim, mine.CPUs, other.Claim, theirs.CPUs, mine.CPUs.Intersection(theirs.CPUs))
}

// misfit compares what a record gives with the machine as it is now.
func misfit(m *model.Machine, r driver.Record, given driver.Pin) error {
	offline, elsewhere := cpuset.New(), cpuset.New()
	for _, id := range given.CPUs.List() {
		at := slices.IndexFunc(m.CPUs, func(c model.CPU) bool { return c.ID == id })
		if at < 0 || !m.CPUs[at].Online {
			offline = offline.Union(cpuset.New(id))
			continue
		}
		if node := m.CPUs[at].NUMANode; node != nil && !given.Mems.IsEmpty() && !given.Mems.Contains(*node) && hasMemory(m, *node) {
			elsewhere = elsewhere.Union(cpuset.New(id))
		}
	}
	switch {
	case !offline.IsEmpty():
		return fmt.Errorf("claim %s has CPUs %s, of which %s are offline or gone: want them online, or the claim's pods deleted", r.Claim, given.CPUs, offline)
	case !elsewhere.IsEmpty():
		return fmt.Errorf("claim %s has CPUs %s beside memory node %s, and CPUs %s sit elsewhere since the machine's topology changed: want the claim's pods deleted",
			r.Claim, given.CPUs, given.Mems, elsewhere)
	}
	return nil
}

// hasMemory says whether a node has memory of its own: CPUs of one without use
// that of another. Where the kernel does not say, it has.
func hasMemory(m *model.Machine, id int) bool {
	at := slices.IndexFunc(m.NUMANodes, func(n model.NUMANode) bool { return n.ID == id })
	return at >= 0 && (m.NUMANodes[at].MemoryBytes == nil || *m.NUMANodes[at].MemoryBytes > 0)
}
