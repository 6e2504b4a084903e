// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nearest

import (
	"cmp"
	"slices"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
)

// maxCandidates bounds the devices of one kind that a placement is chosen from:
// a machine may have thousands of virtual functions. What is found among some can
// be had all the same.
const maxCandidates = 64

// best is the nearest placement that was found which is nowhere farther than what
// is, or what is.
func (m *Machine) best(g Group, is pairs) pairs {
	best := is
	if !m.improvable(is) {
		return best
	}
	gpus, nics := m.candidates(g.GPUs, g.Others), m.candidates(g.NICs, g.Others)
	own := m.nodesOf(g.CPUs)
	for _, nodes := range m.nodesFor(g) {
		for _, score := range m.scores(nodes) {
			could := m.place(g, gpus, nics, nodes, score)
			if len(nodes) < len(own) && !besideCPUs(could) {
				continue
			}
			if noFarther(could, is) && compare(could, best) < 0 {
				best = could
			}
		}
	}
	return best
}

// besideCPUs says whether every device is beside the CPUs. CPUs of several nodes are
// near some of the devices each: to have them on fewer nodes is nearer only where all
// devices come along.
func besideCPUs(p pairs) bool {
	far := func(pair Pair) bool { return nearer(affinity.NODE, pair.Is) }
	return !slices.ContainsFunc(p.gpuCPUs, far) && !slices.ContainsFunc(p.nicCPUs, far)
}

// improvable says whether anything could be nearer. Where it is not known how
// near something is, nothing is said to be farther.
func (m *Machine) improvable(is pairs) bool {
	far := false
	for _, p := range is.all() {
		if p.Is == affinity.Unknown {
			return false
		}
		most := affinity.PIX
		if p.B == nil {
			most = affinity.NODE
		}
		far = far || nearer(most, p.Is)
	}
	return far
}

// candidates are devices of the makes of a pod's: those of the pod, and others
// that may be offered. Functions of one vendor, device and class number are of one
// make: a claim that took one would have taken another.
func (m *Machine) candidates(own, others []model.PCIAddress) []model.PCIAddress {
	makes, list := m.makes(own), slices.Clone(own)
	never := map[model.PCIAddress]bool{}
	for _, a := range slices.Concat(own, others) {
		never[a] = true
	}
	for _, n := range m.NICs {
		// One without an interface is held: that is in a pod's network namespace.
		if n.PCI != nil && n.Withheld != nil && n.Interface != nil {
			never[*n.PCI] = true
		}
	}
	for i := range m.Functions {
		f := &m.Functions[i]
		if len(list) < maxCandidates && makes[makeOf(f)] > 0 && !never[f.Address] {
			list = append(list, f.Address)
		}
	}
	return list
}

// maker is what functions of one make have in common.
type maker struct {
	vendor, device uint16
	class          uint32
}

func makeOf(f *model.PCIFunction) maker {
	if f == nil {
		return maker{}
	}
	return maker{f.Vendor, f.Device, f.Class}
}

// makes counts devices by make.
func (m *Machine) makes(list []model.PCIAddress) map[maker]int {
	count := map[maker]int{}
	for _, a := range list {
		count[makeOf(m.Function(a))]++
	}
	return count
}

// nodesFor are the nodes whose CPUs the group could have had: each one that has
// enough of them, besides those that it has. Without CPUs it is one empty list.
func (m *Machine) nodesFor(g Group) [][]int {
	if g.CPUs.IsEmpty() {
		return [][]int{nil}
	}
	own := m.nodesOf(g.CPUs)
	lists := [][]int{own}
	for _, n := range m.NUMANodes {
		if n.CPUs.Difference(g.OtherCPUs).Size() >= g.CPUs.Size() && !slices.Equal(own, []int{n.ID}) {
			lists = append(lists, []int{n.ID})
		}
	}
	return lists
}

// score says how good it is that two devices are a pair: less is better.
type score func(few, many model.PCIAddress) int

// beyond is more than any class is.
const beyond = 10

// scores are the two orders to choose devices in: beside each other before beside
// the CPUs, and the other way round.
func (m *Machine) scores(nodes []int) []score {
	toCPUs := func(a model.PCIAddress) int {
		far := 0
		for _, n := range nodes {
			far = max(far, int(m.toNode(a, n)))
		}
		return far
	}
	between := func(a, b model.PCIAddress) int { return int(rank(m.class(a, b))) }
	return []score{
		func(a, b model.PCIAddress) int { return between(a, b)*2*beyond + toCPUs(a) + toCPUs(b) },
		func(a, b model.PCIAddress) int { return (toCPUs(a)+toCPUs(b))*beyond + between(a, b) },
	}
}

// place chooses as many devices of each make as the group has.
func (m *Machine) place(g Group, gpus, nics []model.PCIAddress, nodes []int, by score) pairs {
	switch {
	case len(g.GPUs) == 0:
		return m.pairsOf(nil, m.alone(g.NICs, nics, by), nodes)
	case len(g.NICs) == 0:
		return m.pairsOf(m.alone(g.GPUs, gpus, by), nil, nodes)
	}
	fewer, few, many := g.GPUs, gpus, nics
	more, swapped := g.NICs, len(g.NICs) < len(g.GPUs)
	if swapped {
		fewer, more, few, many = g.NICs, g.GPUs, nics, gpus
	}
	var chosenFew, chosenMany []model.PCIAddress
	for _, s := range m.share(pool{few: few, many: many, fewNeed: m.makes(fewer), manyNeed: m.makes(more)}, by) {
		if !slices.Contains(chosenFew, s.few) {
			chosenFew = append(chosenFew, s.few)
		}
		chosenMany = append(chosenMany, s.many)
	}
	if swapped {
		chosenFew, chosenMany = chosenMany, chosenFew
	}
	return m.pairsOf(chosenFew, chosenMany, nodes)
}

// alone chooses devices of one kind, which only the CPUs can be near.
func (m *Machine) alone(own, candidates []model.PCIAddress, by score) []model.PCIAddress {
	list := slices.Clone(candidates)
	slices.SortStableFunc(list, func(a, b model.PCIAddress) int { return cmp.Compare(by(a, a), by(b, b)) })
	need := m.makes(own)
	var chosen []model.PCIAddress
	for _, a := range list {
		if k := makeOf(m.Function(a)); need[k] > 0 {
			need[k]--
			chosen = append(chosen, a)
		}
	}
	return chosen
}

// pool is what pairs are made of: devices of two kinds, and how many of each make
// are wanted. Of the first kind no more are wanted than of the second.
type pool struct {
	few, many         []model.PCIAddress
	fewNeed, manyNeed map[maker]int
}

type shared struct{ few, many model.PCIAddress }

// share gives each device of the less numerous kind its share of the others, the
// best first. On a machine, which is a tree, that is the best for all of them
// where there are as many of both kinds.
func (m *Machine) share(p pool, by score) []shared {
	var out []shared
	few, many := total(p.fewNeed), total(p.manyNeed)
	used := map[model.PCIAddress]bool{}
	for ; few > 0 && many > 0; few-- {
		each := (many + few - 1) / few
		var best []shared
		var bestScores []int
		for _, a := range p.few {
			if used[a] || p.fewNeed[makeOf(m.Function(a))] == 0 {
				continue
			}
			list, scores := m.nearestTo(a, each, p, used, by)
			if best == nil || slices.Compare(scores, bestScores) < 0 {
				best, bestScores = list, scores
			}
		}
		if best == nil {
			break
		}
		for _, s := range best {
			used[s.many] = true
			p.manyNeed[makeOf(m.Function(s.many))]--
		}
		used[best[0].few] = true
		p.fewNeed[makeOf(m.Function(best[0].few))]--
		many -= len(best)
		out = append(out, best...)
	}
	return out
}

// nearestTo lists the best few for a device, of the makes that are wanted yet.
func (m *Machine) nearestTo(a model.PCIAddress, most int, p pool, used map[model.PCIAddress]bool, by score) (list []shared, scores []int) {
	type scored struct {
		device model.PCIAddress
		score  int
	}
	var all []scored
	for _, b := range p.many {
		if !used[b] && p.manyNeed[makeOf(m.Function(b))] > 0 {
			all = append(all, scored{b, by(a, b)})
		}
	}
	slices.SortStableFunc(all, func(x, y scored) int { return cmp.Compare(x.score, y.score) })
	taken := map[maker]int{}
	for _, s := range all {
		k := makeOf(m.Function(s.device))
		if len(list) == most || taken[k] == p.manyNeed[k] {
			continue
		}
		taken[k]++
		list, scores = append(list, shared{a, s.device}), append(scores, s.score)
	}
	return list, scores
}

func total(count map[maker]int) int {
	n := 0
	for _, c := range count {
		n += c
	}
	return n
}

// noFarther says whether no pair is farther than its like.
func noFarther(could, is pairs) bool {
	then, now := could.all(), is.all()
	for i := range now {
		if i >= len(then) || nearer(now[i].Is, then[i].Is) {
			return false
		}
	}
	return len(then) == len(now)
}

// compare says which of two is nearer, by the first pair that differs.
func compare(a, b pairs) int {
	return slices.CompareFunc(a.all(), b.all(), func(x, y Pair) int { return cmp.Compare(rank(x.Is), rank(y.Is)) })
}
