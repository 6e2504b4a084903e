// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Attribution attributes what is not as before on the node to the cycles that may have
// caused it, while several run at a time. Each cycle has a NIC of its own, and files
// named after its claim: differences in those are its own. For any other difference the
// candidates are the cycles that ran when it was first seen, and the last of them to
// end waits until it is gone.
type Attribution struct {
	mu     sync.Mutex
	before State
	// living are the cycles under way, with the marks of the lines that are theirs.
	living map[int][]string
	// candidates are the cycles one of which made a difference, by the difference.
	candidates map[string][]int
}

// NewAttribution returns one for a node that was like this before.
func NewAttribution(before State) *Attribution {
	return &Attribution{before: before, living: map[int][]string{}, candidates: map[string][]int{}}
}

// mark says that a cycle is under way and that lines with mark are its own.
func (l *Attribution) mark(cycle int, mark string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.living[cycle] = append(l.living[cycle], mark)
}

// unmark says that lines with mark are the cycle's no longer.
func (l *Attribution) unmark(cycle int, mark string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.living[cycle] = slices.DeleteFunc(l.living[cycle], func(m string) bool { return m == mark })
}

func (l *Attribution) end(cycle int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.living, cycle)
}

// see compares the node with how it was before.
func (l *Attribution) see(now State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string][]int{}
	for _, d := range Compare(l.before, State{Lines: now.Lines}) {
		seen[d] = l.whose(d)
	}
	l.candidates = seen
}

// whose cycles may have made a difference, ascending.
func (l *Attribution) whose(difference string) []int {
	for cycle, marks := range l.living {
		if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(difference, mark) }) {
			return []int{cycle}
		}
	}
	if known := l.candidates[difference]; len(known) > 0 {
		return known
	}
	return slices.Sorted(maps.Keys(l.living))
}

// unresolved is what a cycle has to wait for before it has ended: its NIC, and what no
// other cycle under way can have made; with a mark, only what has the mark.
func (l *Attribution) unresolved(cycle int, mark string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var owed []string
	for what, candidates := range l.candidates {
		if !slices.Contains(candidates, cycle) || !strings.Contains(what, mark) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(candidates), func(other int) bool {
			_, lives := l.living[other]
			return other == cycle || !lives
		})
		if len(others) == 0 {
			owed = append(owed, named(candidates)+": "+what)
		}
	}
	slices.Sort(owed)
	return owed
}

// named are the cycles in words.
func named(cycles []int) string {
	if len(cycles) == 1 {
		return fmt.Sprintf("cycle %d", cycles[0])
	}
	return "one of cycles " + strings.Trim(strings.ReplaceAll(fmt.Sprint(cycles), " ", ", "), "[]")
}

// Compare says what of the node is no longer as it was.
func Compare(before, now State) []string {
	var differences []string
	for _, line := range before.Lines {
		if !slices.Contains(now.Lines, line) {
			differences = append(differences, "gone or changed: "+line)
		}
	}
	for _, line := range now.Lines {
		if !slices.Contains(before.Lines, line) {
			differences = append(differences, "new: "+line)
		}
	}
	if now.Namespaces > before.Namespaces {
		differences = append(differences, fmt.Sprintf("the agent holds %d network namespaces, %d before", now.Namespaces, before.Namespaces))
	}
	return differences
}
