// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/plural"
)

// lines say of each request of the conflict what there is for it, by the values
// that the conflict's constraints compare, and which claims hold the rest.
func (a *Answer) lines() []string {
	constraints := a.conflictConstraints()
	var all []string
	for _, i := range a.Conflict {
		m := a.Members[i]
		if m.Constraint {
			continue
		}
		request := &a.Claims[m.Claim].Requests[m.Index]
		var attributes []string
		for k := range constraints {
			if constraints[k].claim == m.Claim && constraints[k].about(request) && !slices.Contains(attributes, constraints[k].attribute) {
				attributes = append(attributes, constraints[k].attribute)
			}
		}
		for x := range request.Alternatives {
			if line := a.line(&request.Alternatives[x], attributes); line != "" {
				all = append(all, line)
			}
		}
	}
	return mergeEqual(all)
}

// mergeEqual joins lines that say the same of several requests.
func mergeEqual(lines []string) []string {
	var all []string
	names := map[string][]string{}
	for _, l := range lines {
		name, rest, _ := strings.Cut(l, ": ")
		if names[rest] == nil {
			all = append(all, rest)
		}
		names[rest] = append(names[rest], name)
	}
	for i, rest := range all {
		all[i] = shorten(names[rest]) + ": " + rest
	}
	return all
}

// shorten lists names; of more than four the first two and the last.
func shorten(names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%s, %s … %s (%d requests)", names[0], names[1], names[len(names)-1], len(names))
	}
	return strings.Join(names, ", ")
}

func (a *Answer) line(x *compile.Alternative, attributes []string) string {
	free := map[string]int{}
	others := map[string]map[string]int{}
	short := a.shortCounters(x)
	matching, available := 0, 0
	for d, why := range x.Why {
		if !why.Obstacle.Matches() {
			continue
		}
		matching++
		where := a.valuesText(x, d, attributes)
		if why.Obstacle == compile.None {
			available++
			free[where]++
			continue
		}
		for _, by := range a.holders(d, why, short) {
			if others[by] == nil {
				others[by] = map[string]int{}
			}
			others[by][where]++
		}
	}
	if matching == 0 {
		return ""
	}
	line := fmt.Sprintf("%s: wants %s of class %s%s; %s, %d free", x.Name, amount(x), x.Class, derivedText(x, attributes),
		plural.Count(matching, "matches", "match"), available)
	if len(attributes) > 0 && available > 0 {
		line += ": " + strings.Join(frequentByName(free), ", ")
	}
	for i, by := range slices.Sorted(maps.Keys(others)) {
		if i == maxShown {
			line += fmt.Sprintf("; and others (%d)", len(others)-maxShown)
			break
		}
		sum := 0
		for _, n := range others[by] {
			sum += n
		}
		line += fmt.Sprintf("; %s (%d)", by, sum)
		if len(attributes) > 0 {
			line += ": " + strings.Join(frequentByName(others[by]), ", ")
		}
	}
	return line
}

// frequentByName lists values with their numbers, sorted by value.
func frequentByName(count map[string]int) []string {
	var all []string
	for i, name := range slices.Sorted(maps.Keys(count)) {
		if i == maxShown {
			return append(all, fmt.Sprintf("and %d more", len(count)-maxShown))
		}
		all = append(all, fmt.Sprintf("%s (%d)", name, count[name]))
	}
	return all
}

// valuesText are a device's values of some attributes, such as "pci0000:5d numaNode 0".
// For a request they are what it derives.
func (a *Answer) valuesText(x *compile.Alternative, d int, attributes []string) string {
	var all []string
	for _, name := range attributes {
		value := "without " + bare(name)
		attribute, err := a.Attribute(x, d, name)
		switch {
		case err != nil:
			value = bare(name) + " not to be derived"
		case attribute != nil:
			values, _ := compile.Values(attribute)
			value = display(values)
			if !strings.HasPrefix(value, "pci") {
				value = bare(name) + " " + value
			}
		}
		all = append(all, value)
	}
	return strings.Join(all, " ")
}

func bare(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// holders says what keeps a device: a taint, partitions of the same hardware, or the
// claims that hold it. short says of the partitions what they lack, by counter set.
func (a *Answer) holders(d int, why compile.Why, short map[string]string) []string {
	switch why.Obstacle {
	case compile.Tainted:
		text := "tainted " + snapshot.TaintText(why.Taint)
		if rule := a.Cluster.TaintRule(a.Devices[d].Slice, a.Devices[d].ID.Device, why.Taint); rule != "" {
			text += " by DeviceTaintRule " + rule
		}
		return []string{text}
	case compile.PartsTaken:
		return []string{"parts of hardware that is given out, too little left of " + short[counterSet(why)]}
	}
	var all []string
	if held := a.Devices[d].Held; held != nil {
		for _, h := range held.Holders {
			if !h.Admin {
				all = append(all, fmt.Sprintf("held by %s/%s", h.Claim.Namespace, h.Claim.Name))
			}
		}
	}
	if why.Obstacle == compile.TooLittleLeft {
		for i, by := range all {
			all[i] = "too little " + why.Detail + " left beside what is " + by
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// counterSet is the first set of which a partition's counters do not suffice.
func counterSet(why compile.Why) string {
	set, _, _ := strings.Cut(why.Counters[0], "/")
	return set
}

// shortCounters are the counters that do not suffice for partitions, by their set: those
// that keep all of them away, or where there is none, that keep any.
func (a *Answer) shortCounters(x *compile.Alternative) map[string]string {
	count, partitions := map[string]map[string]int{}, map[string]int{}
	for _, why := range x.Why {
		if why.Obstacle != compile.PartsTaken {
			continue
		}
		set := counterSet(why)
		partitions[set]++
		if count[set] == nil {
			count[set] = map[string]int{}
		}
		for _, name := range why.Counters {
			count[set][name]++
		}
	}
	all := map[string]string{}
	for set, names := range count {
		var common []string
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if names[name] == partitions[set] {
				common = append(common, name)
			}
		}
		if len(common) == 0 {
			common = slices.Sorted(maps.Keys(names))
		}
		if len(common) > maxShown {
			common = append(common[:maxShown], fmt.Sprintf("%d more", len(common)-maxShown))
		}
		all[set] = join(common)
	}
	return all
}

// allShortCounters are the counters that do not suffice, of one set in full.
func (a *Answer) allShortCounters(x *compile.Alternative) string {
	short := a.shortCounters(x)
	sets := slices.Sorted(maps.Keys(short))
	text := short[sets[0]]
	if more := len(sets) - 1; more > 0 {
		text += fmt.Sprintf(", and in %s", plural.Count(more, "more set of counters", "more sets of counters"))
	}
	return text
}

// shortCapacities says of which capacities too little is left on devices that have shares.
func shortCapacities(x *compile.Alternative) string {
	var names []string
	for _, why := range x.Why {
		if why.Obstacle == compile.TooLittleLeft && !slices.Contains(names, why.Detail) {
			names = append(names, why.Detail)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", too little left of " + join(names)
}
