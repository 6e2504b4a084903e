// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Policy is how to choose. The zero value packs: few L3 caches, whole cores, and as
// few cores as possible of which others get the rest.
type Policy struct {
	// FullCores gives whole cores only, so that no core is shared by two
	// claims.
	FullCores bool
	// Spread takes cores from as many L3 caches as possible, for work that is bound
	// by cache and memory bandwidth.
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
	// to, such as the local_cpulist of a NIC; empty where all are as good.
	Near   cpuset.CPUSet
	Policy Policy
}

// Place chooses r.N of r.Free by the policy, or says why not. Without FullCores,
// Exclude and CPUs it succeeds whenever that many are free.
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

// picker takes CPUs until it has enough.
type picker struct {
	// left is how many CPUs are still wanted.
	left   int
	chosen []int
	// quota is how many cores of a size may be taken whole; nil: any.
	quota  map[int]int
	spread bool
	// shared is how many cores were not taken whole, split how many of those were
	// free as a whole before.
	shared, split int
}

// oneCache takes all that is left from below a single L3, where one has as much:
// the one where the fewest cores are shared, then the fewest split, then the
// least is left over. It says whether there is one.
func (p *picker) oneCache(cores []candidate) bool {
	var best *picker
	leftOver := 0
	for _, g := range byCache(cores) {
		have := threads(g.cores)
		if have < p.left {
			continue
		}
		try := &picker{left: p.left}
		try.singles(try.wholeCores(g.cores))
		if best == nil || cmp.Or(
			cmp.Compare(try.shared, best.shared), cmp.Compare(try.split, best.split), cmp.Compare(have, leftOver)) < 0 {
			best, leftOver = try, have
		}
	}
	if best == nil {
		return false
	}
	p.chosen, p.left = append(p.chosen, best.chosen...), 0
	return true
}

// wholeCores takes cores that nobody shares, none larger than what is still
// wanted, and returns the cores it left.
func (p *picker) wholeCores(cores []candidate) (rest []candidate) {
	groups := byCache(cores)
	for p.left > 0 {
		i := p.nextCache(groups)
		if i < 0 {
			break
		}
		if p.spread {
			p.takeCores(groups[i], 1)
		} else {
			p.takeCores(groups[i], len(groups[i].cores))
		}
	}
	for _, g := range groups {
		rest = append(rest, g.cores...)
	}
	return rest
}

// nextCache chooses the cache to take cores from, or -1 when none has a core
// that fits. Packing takes the best fit, which keeps the large free ones whole;
// spreading takes the one with the most left.
func (p *picker) nextCache(groups []*cache) int {
	want := p.left
	if p.spread {
		want = everything
	}
	return fit(groups, want, func(g *cache) int {
		sum := 0
		for _, c := range g.cores {
			if p.takes(c) {
				sum += len(c.free)
			}
		}
		return sum
	})
}

// takes says whether a core may be taken whole.
func (p *picker) takes(c candidate) bool {
	return c.whole && len(c.free) <= p.left && (p.quota == nil || p.quota[len(c.free)] > 0)
}

// takeCores takes at most n cores of a cache.
func (p *picker) takeCores(g *cache, n int) {
	g.cores = slices.DeleteFunc(g.cores, func(c candidate) bool {
		if n == 0 || !p.takes(c) {
			return false
		}
		n--
		if p.quota != nil {
			p.quota[len(c.free)]--
		}
		p.take(c, len(c.free))
		return true
	})
}

// singles takes the threads that are still wanted when no whole core fits: from cores
// that are partly taken first, then by splitting one that is free.
func (p *picker) singles(cores []candidate) {
	for _, whole := range []bool{false, true} {
		pool := slices.DeleteFunc(slices.Clone(cores), func(c candidate) bool { return c.whole != whole })
		for p.left > 0 {
			i := fit(pool, p.left, func(c candidate) int { return len(c.free) })
			if i < 0 {
				break
			}
			p.take(pool[i], min(len(pool[i].free), p.left))
			pool = slices.Delete(pool, i, i+1)
		}
	}
}

func (p *picker) take(c candidate, n int) {
	p.chosen = append(p.chosen, c.free[:n]...)
	p.left -= n
	if n < len(c.core.Threads) {
		p.shared++
		if c.whole {
			p.split++
		}
	}
}

// cache is the cores below one L3.
type cache struct {
	id    int
	cores []candidate
}

// byCache groups cores by L3, in the order of their first core.
func byCache(cores []candidate) []*cache {
	index := map[int]*cache{}
	var groups []*cache
	for _, c := range cores {
		g := index[c.l3]
		if g == nil {
			g = &cache{id: c.l3}
			index[c.l3] = g
			groups = append(groups, g)
		}
		g.cores = append(g.cores, c)
	}
	return groups
}

// everything is more CPUs than any machine has: the best fit for it is the largest.
const everything = math.MaxInt

// fit returns the index of the smallest candidate that has at least want, else
// of the largest; the first among equals, and -1 where none has anything.
func fit[T any](candidates []T, want int, size func(T) int) int {
	best, bestHave := -1, 0
	for i := range candidates {
		have := size(candidates[i])
		switch {
		case have == 0:
		case best < 0,
			have >= want && (bestHave < want || have < bestHave),
			have < want && bestHave < want && have > bestHave:
			best, bestHave = i, have
		}
	}
	return best
}

// threads counts the free CPUs of cores.
func threads(cores []candidate) int {
	sum := 0
	for _, c := range cores {
		sum += len(c.free)
	}
	return sum
}

// coreSizes lists how many CPUs cores have, each number once, the largest
// first.
func coreSizes(cores []candidate) []int {
	counts := countSizes(cores)
	return slices.SortedFunc(maps.Keys(counts), func(a, b int) int { return b - a })
}

func countSizes(cores []candidate) map[int]int {
	counts := map[int]int{}
	for _, c := range cores {
		counts[len(c.free)]++
	}
	return counts
}

// sizesFor says how many cores of each size make exactly n CPUs, with as many
// large ones as possible; nil where none do. Taking the largest that fits would
// not find 2+2 for 4 among cores of 3, 2 and 2.
func sizesFor(cores []candidate, n int) map[int]int {
	counts := countSizes(cores)
	return exactly(coreSizes(cores), counts, n, map[[2]int]bool{})
}

// exactly tries sizes in order. dead memoizes the pairs (sizes left, CPUs left) that
// have no solution.
func exactly(sizes []int, counts map[int]int, n int, dead map[[2]int]bool) map[int]int {
	if n == 0 {
		return map[int]int{}
	}
	state := [2]int{len(sizes), n}
	if len(sizes) == 0 || dead[state] {
		return nil
	}
	size := sizes[0]
	for k := min(counts[size], n/size); k >= 0; k-- {
		if found := exactly(sizes[1:], counts, n-k*size, dead); found != nil {
			found[size] = k
			return found
		}
	}
	dead[state] = true
	return nil
}
