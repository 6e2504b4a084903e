// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"math"
	"slices"
)

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
