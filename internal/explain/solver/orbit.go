// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"fmt"
	"slices"
)

// maxOrbit is the most sets that Orbit makes of one.
const maxOrbit = 500

// Orbit lists the sets of members, the given one first, that differ from it only
// by which of several equal groups of requests they are about: what is true of
// one is true of all. Groups are equal where the same is asked for in the same
// way, such as the pairs of a claim for eight pairs.
func (s *Solver) Orbit(set []int) [][]int {
	if s.groups == nil {
		s.group()
	}
	// What the set has of each group, by the group's kind.
	parts := map[int]map[int][]int{}
	var kinds []int
	for _, m := range set {
		g := s.groupOf[m]
		kind := s.groups[g].kind
		if parts[kind] == nil {
			parts[kind] = map[int][]int{}
			kinds = append(kinds, kind)
		}
		parts[kind][g] = append(parts[kind][g], slices.Index(s.groups[g].members, m))
	}
	all := [][]int{nil}
	for _, kind := range kinds {
		var patterns [][]int
		for _, g := range sortedKeys(parts[kind]) {
			patterns = append(patterns, parts[kind][g])
		}
		var more [][]int
		for _, chosen := range s.choices(kind, patterns) {
			for _, before := range all {
				more = append(more, slices.Concat(before, chosen))
			}
		}
		if all = more; len(all) > maxOrbit {
			return [][]int{set}
		}
	}
	return distinctSets(set, all)
}

func sortedKeys(m map[int][]int) []int {
	var keys []int
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// distinctSets sorts sets and leaves out what is there twice.
func distinctSets(first []int, all [][]int) [][]int {
	sets := [][]int{first}
	seen := map[string]bool{fmt.Sprint(first): true}
	for _, set := range all {
		slices.Sort(set)
		if key := fmt.Sprint(set); !seen[key] {
			seen[key] = true
			sets = append(sets, set)
		}
	}
	return sets
}

// choices puts patterns onto groups of a kind in all ways.
func (s *Solver) choices(kind int, patterns [][]int) [][]int {
	var all [][]int
	var used []int
	var choose func(chosen []int)
	choose = func(chosen []int) {
		if len(all) > maxOrbit {
			return
		}
		if len(used) == len(patterns) {
			all = append(all, slices.Clone(chosen))
			return
		}
		for g := range s.groups {
			if s.groups[g].kind != kind || slices.Contains(used, g) {
				continue
			}
			pattern := patterns[len(used)]
			used = append(used, g)
			next := slices.Clone(chosen)
			for _, position := range pattern {
				next = append(next, s.groups[g].members[position])
			}
			choose(next)
			used = used[:len(used)-1]
		}
	}
	choose(nil)
	return all
}

// group is requests that constraints tie together, with these constraints, as
// indices of members.
type group struct {
	kind    int
	members []int
}

// group finds the groups and which are equal.
func (s *Solver) group() {
	of := make([]int, len(s.members))
	for i := range of {
		of[i] = i
	}
	for i, m := range s.members {
		if m.Constraint {
			continue
		}
		for _, k := range s.touches[m.Claim][m.Index] {
			constraint := slices.Index(s.members, Member{Claim: m.Claim, Index: k, Constraint: true})
			from, to := of[i], of[constraint]
			for x := range of {
				if of[x] == from {
					of[x] = to
				}
			}
		}
	}
	s.groupOf = make([]int, len(s.members))
	index := map[int]int{}
	for i := range s.members {
		g, seen := index[of[i]]
		if !seen {
			g = len(s.groups)
			index[of[i]] = g
			s.groups = append(s.groups, group{})
		}
		s.groups[g].members = append(s.groups[g].members, i)
		s.groupOf[i] = g
	}
	kinds := map[string]int{}
	for g := range s.groups {
		key := s.describe(g)
		kind, seen := kinds[key]
		if !seen {
			kind = len(kinds)
			kinds[key] = kind
		}
		s.groups[g].kind = kind
	}
}

// describe writes all that is known of a group. Where the order of requests
// matters no two are equal.
func (s *Solver) describe(g int) string {
	w := keyWriter{}
	members := s.groups[g].members
	first := s.members[members[0]]
	w.numbers(int64(first.Claim))
	if newSearch(s, s.All()).dependsOnOrder() {
		w.numbers(int64(g))
	}
	for _, i := range members {
		m := s.members[i]
		claim := &s.p.Claims[m.Claim]
		w.flags(m.Constraint)
		if !m.Constraint {
			w.numbers(int64(len(claim.Requests[m.Index].Alternatives)))
			for a := range claim.Requests[m.Index].Alternatives {
				w.alternative(&claim.Requests[m.Index].Alternatives[a])
			}
			continue
		}
		k := &claim.Constraints[m.Index]
		w.flags(k.Invalid, k.Distinct)
		for _, other := range members {
			if r := s.members[other]; !r.Constraint {
				w.flags(k.Applies[r.Index]...)
			}
		}
		for _, v := range k.Values {
			w.key = v.append(w.key)
		}
	}
	return string(w.key)
}
