// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// classify finds the classes of interchangeable devices: those of one fit the same
// requests, have the same values, and consume the same.
func (s *Solver) classify() {
	s.class = make([]int, len(s.p.Devices))
	known := map[string]int{}
	var key []byte
	for d := range s.p.Devices {
		var wanted bool
		key, wanted = s.classKey(key[:0], d)
		if !wanted {
			s.class[d] = -1
			continue
		}
		id, seen := known[string(key)]
		if !seen {
			id = s.classes
			known[string(key)] = id
			s.classes++
		}
		s.class[d] = id
	}
}

// classKey is all that is known of a device, and whether a request can have it.
func (s *Solver) classKey(key []byte, d int) ([]byte, bool) {
	device := &s.p.Devices[d]
	// How much is left of a shared device tells it apart.
	if device.Shared || s.individual {
		key = binary.AppendVarint(key, int64(d)+1)
	} else {
		key = binary.AppendVarint(key, 0)
	}
	wanted := false
	for _, claim := range s.p.Claims {
		for _, r := range claim.Requests {
			for _, a := range r.Alternatives {
				fit := No
				if d < len(a.Fit) {
					fit = a.Fit[d]
				}
				wanted = wanted || fit != No
				key = append(key, byte(fit))
				if a.WantsAll {
					key = append(key, contains(a.All, d))
				}
			}
		}
		for i := range claim.Constraints {
			if c := &claim.Constraints[i]; !c.Invalid {
				key = c.appendValues(key, d)
			}
		}
	}
	for _, t := range device.ConsumesCounters {
		key = binary.AppendVarint(key, int64(t.Counter))
		key = binary.AppendVarint(key, t.Amount)
	}
	return key, wanted
}

func contains(all []int, d int) byte {
	for _, x := range all {
		if x == d {
			return 1
		}
	}
	return 0
}

func (v Value) append(key []byte) []byte {
	key = append(key, byte(v.Kind))
	key = binary.AppendVarint(key, int64(v.ID))
	key = binary.AppendVarint(key, int64(len(v.IDs)))
	for _, id := range v.IDs {
		key = binary.AppendVarint(key, int64(id))
	}
	return key
}

// maxOrbit is the most images that are made of a set; of one with more there is only
// itself.
const maxOrbit = 500

// Orbit lists the images of a set of members under the symmetries of the problem, the
// set itself first: what is true of one is true of all. A symmetry exchanges groups of
// requests that ask for the same in the same way, such as the pairs of a claim for
// eight pairs of a GPU and a NIC.
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

// choices maps patterns to groups of a kind in all ways.
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
		key := s.groupKey(g)
		kind, seen := kinds[key]
		if !seen {
			kind = len(kinds)
			kinds[key] = kind
		}
		s.groups[g].kind = kind
	}
}

// groupKey is all that is known of a group: those with equal keys can be exchanged.
// Where the order of requests matters no two are equal.
func (s *Solver) groupKey(g int) string {
	w := keyWriter{}
	members, all := s.groups[g].members, s.p.allDevices()
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
		w.flags(k.Invalid, k.Distinct, k.Derived != nil)
		for _, other := range members {
			if r := s.members[other]; !r.Constraint {
				w.flags(k.Applies[r.Index]...)
				w.key = k.appendDerived(w.key, r.Index, all...)
			}
		}
		for _, v := range k.Values {
			w.key = v.append(w.key)
		}
	}
	return string(w.key)
}
