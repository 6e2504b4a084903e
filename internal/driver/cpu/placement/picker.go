// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// picker takes CPUs until it has enough.
type picker struct {
	// left is how many CPUs are still wanted.
	left   int
	chosen []int
	// quota is how many cores of a size may be taken whole; nil: any.
	quota  map[int]int
	spread bool
	// shared is how many cores were not taken whole, broken how many of those
	// nobody had a thread of before.
	shared, broken int
}

// oneCache takes all that is left from below a single L3, where one has as much:
// the one where the fewest cores are shared, then the fewest broken, then the
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
			cmp.Compare(try.shared, best.shared), cmp.Compare(try.broken, best.broken), cmp.Compare(have, leftOver)) < 0 {
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
// that fits. Packing takes the one that fits best, so that large holes stay;
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

// singles takes the threads that no whole core could give: what others left of
// broken cores first, then by breaking one.
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
			p.broken++
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

// everything is more than any machine has: the largest fits it best.
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

// exactly tries sizes in order. dead are (sizes left, CPUs left) that lead
// nowhere.
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
