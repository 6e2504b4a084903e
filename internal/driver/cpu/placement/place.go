// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Policy is how to choose. The zero value packs: few caches, whole cores, as
// little broken as possible.
type Policy struct {
	// FullCores gives whole cores only, so that no core is shared by two
	// claims.
	FullCores bool
	// Spread takes cores from as many L3 caches as possible, for work that
	// lives from cache and memory bandwidth.
	Spread bool
	// Prefer is the kind of core to take first; empty: performance cores, then
	// standard, then efficiency.
	Prefer model.CoreType
	// Exclude are kinds of cores not to take.
	Exclude []model.CoreType
	// CPUs names the CPUs to give; empty leaves the choice.
	CPUs cpuset.CPUSet
}

// Request is what one claim wants of one group.
type Request struct {
	// N is how many CPUs.
	N int
	// Free are the CPUs of the group that nobody has.
	Free cpuset.CPUSet
	// Near are the CPUs closest to the devices that the claim binds these CPUs
	// to, such as the local_cpulist of a NIC; empty: all alike.
	Near   cpuset.CPUSet
	Policy Policy
}

// Place chooses r.N of r.Free by the policy, or says why not. With nothing but
// a number asked for it finds them whenever that many are free.
func Place(t *Topology, r Request) (cpuset.CPUSet, error) {
	if r.N < 1 {
		return cpuset.New(), fmt.Errorf("wants %d CPUs: want at least 1", r.N)
	}
	if !r.Policy.CPUs.IsEmpty() {
		return r.named(t)
	}
	cores := t.candidates(r.Free)
	have := threads(cores)
	if have < r.N {
		return cpuset.New(), fmt.Errorf("wants %d CPUs, %d are free (%s)", r.N, have, list(r.Free))
	}
	cores = slices.DeleteFunc(cores, func(c candidate) bool { return slices.Contains(r.Policy.Exclude, c.core.Type) })
	if have := threads(cores); have < r.N {
		return cpuset.New(), fmt.Errorf("wants %d CPUs on cores of other kinds than %s, %d such are free", r.N, kinds(r.Policy.Exclude), have)
	}
	if r.Policy.FullCores {
		return r.fullCores(cores)
	}
	p := picker{left: r.N, spread: r.Policy.Spread}
	for _, tier := range r.tiers(cores) {
		if p.spread || !p.oneCache(tier) {
			p.singles(p.wholeCores(tier))
		}
	}
	return cpuset.New(p.chosen...), nil
}

// named gives the CPUs that the policy names, all of them or none.
func (r Request) named(t *Topology) (cpuset.CPUSet, error) {
	want := r.Policy.CPUs
	if want.Size() != r.N {
		return cpuset.New(), fmt.Errorf("names CPUs %s, which are %d, and wants %d: want as many", want, want.Size(), r.N)
	}
	if missing := want.Difference(r.Free); !missing.IsEmpty() {
		return cpuset.New(), fmt.Errorf("names CPUs %s, of which %s are not free here; free are %s", want, missing, list(r.Free))
	}
	for _, c := range t.candidates(want) {
		if slices.Contains(r.Policy.Exclude, c.core.Type) {
			return cpuset.New(), fmt.Errorf("names CPU %d, whose core is of kind %s, which is excluded", c.free[0], c.core.Type)
		}
		if r.Policy.FullCores && !c.whole {
			return cpuset.New(), fmt.Errorf("names CPUs %s of the core with CPUs %s: full cores want all of them", cpuset.New(c.free...), cpuset.New(c.core.Threads...))
		}
	}
	return want, nil
}

// fullCores chooses among the cores that are free as a whole.
func (r Request) fullCores(cores []candidate) (cpuset.CPUSet, error) {
	cores = slices.DeleteFunc(cores, func(c candidate) bool { return !c.whole })
	if have := threads(cores); have < r.N {
		return cpuset.New(), fmt.Errorf("wants %d CPUs of full cores, %d are on cores that nobody shares", r.N, have)
	}
	tiers := r.tiers(cores)
	quota := sizesFor(slices.Concat(tiers...), r.N)
	if quota == nil {
		tiers, quota = [][]candidate{cores}, sizesFor(cores, r.N)
	}
	if quota == nil {
		return cpuset.New(), fmt.Errorf("wants %d CPUs of full cores, which have %v CPUs each: want a sum of those", r.N, coreSizes(cores))
	}
	p := picker{left: r.N, quota: quota, spread: r.Policy.Spread}
	for _, tier := range tiers {
		p.wholeCores(tier)
	}
	return cpuset.New(p.chosen...), nil
}

func kinds(types []model.CoreType) string {
	var names []string
	for _, t := range types {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

func list(s cpuset.CPUSet) string {
	if s.IsEmpty() {
		return "none"
	}
	return s.String()
}

// tiers sorts cores into groups to be used one after another: by kind of core,
// since work on two kinds runs at the pace of the slower, and within a kind
// those near to the claim's devices first. Where a single tier holds the whole
// request, it comes alone before all others.
func (r Request) tiers(cores []candidate) [][]candidate {
	var tiers [][]candidate
	for _, kind := range r.order() {
		var near, far []candidate
		for _, c := range cores {
			switch {
			case c.core.Type != kind:
			case r.isNear(c):
				near = append(near, c)
			default:
				far = append(far, c)
			}
		}
		// Near and far of one kind together are better than two kinds.
		if threads(near) < r.N && threads(near)+threads(far) >= r.N {
			return [][]candidate{near, far}
		}
		for _, tier := range [][]candidate{near, far} {
			if threads(tier) >= r.N {
				return [][]candidate{tier}
			}
			if len(tier) > 0 {
				tiers = append(tiers, tier)
			}
		}
	}
	return tiers
}

func (r Request) isNear(c candidate) bool {
	return !r.Near.IsEmpty() && slices.ContainsFunc(c.free, r.Near.Contains)
}

// order lists the kinds of cores, the preferred one first.
func (r Request) order() []model.CoreType {
	kinds := []model.CoreType{model.PerformanceCore, model.StandardCore, model.EfficiencyCore}
	if i := slices.Index(kinds, r.Policy.Prefer); i > 0 {
		kinds = append([]model.CoreType{r.Policy.Prefer}, slices.Delete(kinds, i, i+1)...)
	}
	return kinds
}
