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

// Ledger says to which cycles belongs what is not as before, while several live
// at a time. Each has a NIC of its own, and files called after its claim: it
// answers for those. Of anything else that is new or gone, the ledger knows who
// lived when it was first seen: one of them made it so. The last of them to end
// waits until it is as before.
type Ledger struct {
	mu     sync.Mutex
	before State
	// living are the cycles under way and what the lines have that are theirs.
	living map[int][]string
	// suspects are the cycles one of which made a difference, by the difference.
	suspects map[string][]int
}

// NewLedger returns one for a node that was like this before.
func NewLedger(before State) *Ledger {
	return &Ledger{before: before, living: map[int][]string{}, suspects: map[string][]int{}}
}

// mark says that a cycle lives and that lines with mark are its own.
func (l *Ledger) mark(cycle int, mark string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.living[cycle] = append(l.living[cycle], mark)
}

// unmark says that lines with mark are the cycle's no longer.
func (l *Ledger) unmark(cycle int, mark string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.living[cycle] = slices.DeleteFunc(l.living[cycle], func(m string) bool { return m == mark })
}

func (l *Ledger) end(cycle int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.living, cycle)
}

// see takes in how the node is.
func (l *Ledger) see(now State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string][]int{}
	for _, d := range Compare(l.before, State{Lines: now.Lines}) {
		seen[d] = l.whose(d)
	}
	l.suspects = seen
}

// whose cycles may have made a difference, ascending.
func (l *Ledger) whose(difference string) []int {
	for cycle, marks := range l.living {
		if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(difference, mark) }) {
			return []int{cycle}
		}
	}
	if known := l.suspects[difference]; len(known) > 0 {
		return known
	}
	return slices.Sorted(maps.Keys(l.living))
}

// owed is what a cycle has to wait for before it has ended: its NIC, and what no
// other cycle that still lives can have made. With a mark it is of that only.
func (l *Ledger) owed(cycle int, mark string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var owed []string
	for what, suspects := range l.suspects {
		if !slices.Contains(suspects, cycle) || !strings.Contains(what, mark) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(suspects), func(other int) bool {
			_, lives := l.living[other]
			return other == cycle || !lives
		})
		if len(others) == 0 {
			owed = append(owed, named(suspects)+": "+what)
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
