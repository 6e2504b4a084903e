// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"errors"
	"maps"
	"sync"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/host/cgroup"
)

// Placer writes containers' control groups. It may be used by several goroutines;
// agents that overlap take turns by the driver's allocation lock.
type Placer struct {
	groups *cgroup.Hierarchy

	mu sync.Mutex
	// placed is where containers were last seen or put, by ID.
	placed map[string]cgroup.Sets
	writes int
}

// target is where a container belongs, in words too.
type target struct {
	cgroup.Placement
	sets cgroup.Sets
}

func targetAt(p cgroup.Placement) target { return target{Placement: p, sets: p.Sets()} }

// Open looks at the directory where the host's control groups are mounted.
func Open(dir string) (*Placer, error) {
	groups, err := cgroup.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Placer{groups: groups, placed: map[string]cgroup.Sets{}}, nil
}

// Close closes what Open opened.
func (p *Placer) Close() error { return p.groups.Close() }

// Outcome is what became of one pass.
type Outcome struct {
	// Writes is how many sets were written.
	Writes int
	// Lifted is how many quotas of CPU time were taken away.
	Lifted int
	// Moved are the containers that were elsewhere.
	Moved []Container
	// Drifted are those of Moved that had been put where they belong before, and
	// were moved away by somebody else.
	Drifted []Drift
	// Failed are those that could not be moved.
	Failed []Failure
}

// Drift is a container that somebody else has moved.
type Drift struct {
	Container   Container
	Found, Want cgroup.Placement
}

// Failure is a container that is not where it belongs.
type Failure struct {
	Container Container
	Want      cgroup.Placement
	Err       error
}

// Place puts containers where they belong, those first that must leave CPUs. A
// look reads every group; without one, those that were put where they belong
// before are passed over. A container whose group is gone, or is not there yet,
// is none of a pass's.
func (p *Placer) Place(containers []Container, pool cpuset.CPUSet, look bool) Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out Outcome
	shared := targetAt(cgroup.Placement{CPUs: pool}) // of most
	for _, exclusive := range []bool{false, true} {
		for _, c := range containers {
			if c.Exclusive() == exclusive && !c.Skip {
				want := shared
				if exclusive || !c.RequestedCPUs.IsEmpty() {
					want = targetAt(Wanted(c, pool))
				}
				p.place(c, want, leftAlone(c, pool), look, &out)
			}
		}
	}
	p.writes += out.Writes
	return out
}

// Writes is how many sets were written since Open.
func (p *Placer) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

func (p *Placer) place(c Container, want target, leave, look bool, out *Outcome) {
	before, known := p.placed[c.ID]
	if known && !look && covers(before, want.sets) || leave && !known {
		return
	}
	found, writes, err := p.move(c.Group, want, known && !look)
	out.Writes += writes
	if err == nil {
		var lifted int
		lifted, err = p.lift(c)
		out.Lifted += lifted
	}
	switch {
	case errors.Is(err, cgroup.ErrGone):
		delete(p.placed, c.ID)
		return
	case err != nil:
		// What it has now is not known.
		delete(p.placed, c.ID)
		out.Failed = append(out.Failed, Failure{Container: c, Want: want.Placement, Err: err})
		return
	}
	p.placed[c.ID] = want.sets
	if leave {
		delete(p.placed, c.ID) // whoever gave it its CPUs may give it others
	}
	if writes == 0 {
		return
	}
	out.Moved = append(out.Moved, c)
	if known && covers(before, want.sets) {
		out.Drifted = append(out.Drifted, Drift{Container: c, Found: found, Want: want.Placement})
	}
}

// move writes what differs. Where the group is trusted to be elsewhere it is not
// read.
func (p *Placer) move(path string, want target, trust bool) (found cgroup.Placement, writes int, err error) {
	g, err := p.groups.Group(path)
	if err != nil {
		return found, 0, err
	}
	if !trust {
		if found, err = g.Placement(); err != nil {
			return found, 0, err
		}
	}
	if want.CPUs.IsEmpty() {
		writes, err = g.Release()
		return found, writes, err
	}
	if !trust && covers(found.Sets(), want.sets) {
		return found, 0, nil
	}
	if writes, err = g.WidenAncestors(want.Placement); err != nil {
		return found, writes, err
	}
	var n int
	if trust {
		n, err = g.Write(want.sets)
	} else {
		n, err = g.Place(want.Placement)
	}
	return found, writes + n, err
}

// lift takes the quota of CPU time (CFS bandwidth control) from a container that
// has CPUs of its own: they cannot use more than those, and the quota would stop
// them within a period that begins on several of them at once. Its pod's goes too
// where it adds nothing to the quotas of its containers.
func (p *Placer) lift(c Container) (lifted int, err error) {
	if !c.Exclusive() {
		return 0, nil
	}
	g, err := p.groups.Group(c.Group)
	if err != nil {
		return 0, err
	}
	groups := []cgroup.Group{g}
	if c.AllLimited {
		groups = []cgroup.Group{g.Parent(), g} // version 1 wants no less around than inside
	}
	for _, group := range groups {
		had, err := group.LiftQuota()
		if errors.Is(err, cgroup.ErrNoController) || errors.Is(err, cgroup.ErrGone) {
			continue // no quota either
		}
		if err != nil {
			return lifted, err
		}
		if had {
			lifted++
		}
	}
	return lifted, nil
}

// covers says whether a container at have is where want wants it, which may
// leave memory to others.
func covers(have, want cgroup.Sets) bool {
	return have.CPUs == want.CPUs && (want.Mems == "" || have.Mems == want.Mems)
}

// leftAlone says whether a container's CPUs are somebody else's business now: no
// claim holds any, and somebody else gave it those it has.
func leftAlone(c Container, pool cpuset.CPUSet) bool {
	return pool.IsEmpty() && !c.RequestedCPUs.IsEmpty() && !c.Exclusive()
}

// Idle says whether a look would find nothing to do: nobody is confined, and
// nobody was.
func (p *Placer) Idle(containers []Container, pool cpuset.CPUSet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range containers {
		before, known := p.placed[c.ID]
		if !known && leftAlone(c, pool) {
			continue
		}
		if !known || before.CPUs != "" || !Wanted(c, pool).CPUs.IsEmpty() {
			return false
		}
	}
	return true
}

// Forget drops what is known of a container that has ended.
func (p *Placer) Forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.placed, id)
}

// Keep drops what is known of all containers but those that are.
func (p *Placer) Keep(is func(id string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.placed, func(id string, _ cgroup.Sets) bool { return !is(id) })
}

// Placed is where a container was last seen or put; not known before the first
// pass that reached it.
func (p *Placer) Placed(id string) (place cgroup.Sets, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place, known = p.placed[id]
	return place, known
}
