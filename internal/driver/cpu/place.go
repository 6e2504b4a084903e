// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"cmp"
	"slices"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// core is what is free of one physical core.
type core struct {
	first int // the lowest free CPU: the order among equals
	l3    int // -1 without an L3
	free  []int
	whole bool // every thread of it is free
}

// place chooses n of the free CPUs: whole cores first, of as few L3 caches as
// possible, then what others left of broken cores, and a new core is broken
// last. The same input gives the same answer. Fewer than n free CPUs give an
// empty set.
func place(m *model.Machine, free cpuset.CPUSet, n int) cpuset.CPUSet {
	if n <= 0 || free.Size() < n {
		return cpuset.New()
	}
	cores := coresOf(m, free)
	var chosen []int
	for _, c := range wholeCores(cores, n) {
		chosen = append(chosen, c.free...)
	}
	used := cpuset.New(chosen...)
	rest := slices.DeleteFunc(cores, func(c core) bool { return used.Contains(c.first) })
	// Threads of broken cores before unbroken ones, each by best fit.
	for _, whole := range []bool{false, true} {
		pool := slices.DeleteFunc(slices.Clone(rest), func(c core) bool { return c.whole != whole })
		for len(chosen) < n && len(pool) > 0 {
			i := fit(pool, n-len(chosen), func(c core) int { return len(c.free) })
			chosen = append(chosen, pool[i].free[:min(len(pool[i].free), n-len(chosen))]...)
			pool = slices.Delete(pool, i, i+1)
		}
	}
	return cpuset.New(chosen...)
}

// wholeCores takes unbroken cores of at most n CPUs together, from the L3 that
// fits best.
func wholeCores(cores []core, n int) []core {
	groups := map[int][]core{}
	var order []int
	for _, c := range cores {
		if !c.whole {
			continue
		}
		if groups[c.l3] == nil {
			order = append(order, c.l3)
		}
		groups[c.l3] = append(groups[c.l3], c)
	}
	var chosen []core
	for n > 0 && len(order) > 0 {
		i := fit(order, n, func(l3 int) int { return threads(groups[l3]) })
		for _, c := range groups[order[i]] {
			if len(c.free) <= n {
				chosen = append(chosen, c)
				n -= len(c.free)
			}
		}
		order = slices.Delete(order, i, i+1)
	}
	return chosen
}

func threads(cores []core) int {
	sum := 0
	for _, c := range cores {
		sum += len(c.free)
	}
	return sum
}

// fit returns the index of the smallest candidate that has at least want, else
// of the largest; the first among equals.
func fit[T any](candidates []T, want int, size func(T) int) int {
	best := 0
	for i := range candidates {
		have, bestHave := size(candidates[i]), size(candidates[best])
		switch {
		case have >= want && (bestHave < want || have < bestHave):
			best = i
		case have < want && bestHave < want && have > bestHave:
			best = i
		}
	}
	return best
}

// coresOf groups the free CPUs by physical core, in the order of their lowest
// free CPU. A CPU whose core is unknown is a core of its own.
func coresOf(m *model.Machine, free cpuset.CPUSet) []core {
	type key struct {
		id  model.CoreID
		cpu int // only where the core is unknown
	}
	online := map[key]int{}
	found := map[key]*core{}
	for _, c := range m.CPUs {
		if !c.Online {
			continue
		}
		k := key{cpu: c.ID}
		if c.Core != nil {
			k = key{id: *c.Core, cpu: -1}
		}
		online[k]++
		if !free.Contains(c.ID) {
			continue
		}
		if found[k] == nil {
			found[k] = &core{first: c.ID, l3: -1}
			if c.L3 != nil {
				found[k].l3 = *c.L3
			}
		}
		found[k].free = append(found[k].free, c.ID)
	}
	cores := make([]core, 0, len(found))
	for k, c := range found {
		c.whole = len(c.free) == online[k]
		cores = append(cores, *c)
	}
	slices.SortFunc(cores, func(a, b core) int { return cmp.Compare(a.first, b.first) })
	return cores
}
