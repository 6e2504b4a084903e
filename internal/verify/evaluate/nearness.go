// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// Word sums both answers up.
type Word string

// The words. Alarms go by Misaligned: who got what he claimed is not one.
const (
	// WordAligned: as claimed, and no pair could be nearer.
	WordAligned Word = "Aligned"
	// WordAsClaimed: as claimed; a pair could be nearer, or it is not known.
	WordAsClaimed Word = "AsClaimed"
	// WordMisaligned: not as claimed.
	WordMisaligned Word = "Misaligned"
	// WordUnknown: it is not known whether it is as claimed.
	WordUnknown Word = "Unknown"
)

// Words lists all words.
func Words() []Word { return []Word{WordAligned, WordAsClaimed, WordMisaligned, WordUnknown} }

// Word is the sum of both answers.
func (o Outcome) Word() Word {
	switch {
	case o.Status == False:
		return WordMisaligned
	case o.Status == Unknown:
		return WordUnknown
	case o.Nearness().Status == True:
		return WordAligned
	}
	return WordAsClaimed
}

// Nearness says whether a pod's components, or those of one claim, are as near to each
// other as the machine could have given them.
type Nearness struct {
	Status  Status
	Reason  Code
	Message string
	key     string
}

// Key is equal for answers that say the same, whatever the pod calls its interfaces.
func (n Nearness) Key() string { return n.key }

// Nearness is the pod's.
func (o Outcome) Nearness() Nearness { return nearness(o.Verdict, o.Pairs) }

// NearnessOf is that of one claim.
func (o Outcome) NearnessOf(claim string) Nearness {
	var pairs []Pair
	for _, p := range o.Pairs {
		if p.Nearest != 0 && p.of(claim) {
			pairs = append(pairs, p)
		}
	}
	return nearness(o.OfClaim(claim), pairs)
}

func nearness(v Verdict, pairs []Pair) Nearness {
	n := answer(v, pairs)
	n.key = fmt.Sprintf("%s %s", n.Status, n.Reason)
	for _, p := range pairs {
		n.key += fmt.Sprintf(" %s/%s", p.Class, p.Nearest)
	}
	return n
}

func answer(v Verdict, pairs []Pair) Nearness {
	var far, near, unknown []string
	for _, p := range pairs {
		switch {
		case p.Nearest == 0:
		case p.farther():
			far = append(far, fmt.Sprintf("%s to %s: %s; the machine could have given %s", p.A, p.B, p.Class, p.Nearest))
		case p.Class == affinity.Unknown:
			unknown = append(unknown, fmt.Sprintf("%s to %s: %s", p.A, p.B, p.Class.Meaning()))
		default:
			near = append(near, fmt.Sprintf("%s to %s: %s", p.A, p.B, p.Class))
		}
	}
	unseen := slices.IndexFunc(v.Findings, func(f Finding) bool {
		return f.State == StateUnknown && !f.placeless || f.Code == DeviceMissing || f.Code == GPUNotKnown
	})
	switch {
	case len(far) > 0:
		return Nearness{Status: False, Reason: FartherThanPossible, Message: strings.Join(far, ", ")}
	case unseen >= 0:
		return Nearness{Status: Unknown, Reason: v.Findings[unseen].Code, Message: v.Findings[unseen].String()}
	case len(unknown) > 0:
		return Nearness{Status: Unknown, Reason: NotRead, Message: strings.Join(unknown, ", ")}
	case len(near) == 0:
		return Nearness{Status: True, Reason: NoPairs, Message: "no GPU and NIC, and neither of them with claimed CPUs: there is nothing to be near to"}
	}
	return Nearness{Status: True, Reason: Nearest, Message: strings.Join(near, ", ") + ": the machine could have given nothing nearer"}
}

// group are devices, and the CPUs of containers that name them.
type group struct {
	devices, cpus []*Component
}

// compared adds to the pairs of claimed components the nearest that the machine could
// have given.
func (e *evaluator) compared(m *nearest.Machine, pairs []Pair) []Pair {
	groups := e.groups()
	for i := range groups {
		g := &groups[i]
		for _, p := range m.Pairs(question(groups, i)) {
			a := componentAt(g.devices, p.A)
			if p.B != nil {
				could(pairs, a, componentAt(g.devices, *p.B), p.Could)
				continue
			}
			for _, t := range g.cpus {
				could(pairs, a, t, p.Could)
			}
		}
	}
	return pairs
}

// groups puts the components together that are to be near each other: the CPUs of a
// container and the devices that it names, or has of a device plugin. Containers that name the same
// device are one group: no device can be beside each of them alone.
func (e *evaluator) groups() []group {
	var list []group
	rest := group{}
	for i := range e.components {
		t := &e.components[i]
		switch {
		case t.Claim == "" && t.Resource == "" || t.virtual():
		case t.Kind == expect.CPUs:
			list = append(list, group{cpus: []*Component{t}})
		default:
			rest.devices = append(rest.devices, t)
		}
	}
	var free []*Component
	for _, d := range rest.devices {
		if !e.join(&list, d) {
			free = append(free, d)
		}
	}
	return append(list, group{devices: free})
}

// join adds a device to the group of the containers that name it, and makes one
// group of several.
func (e *evaluator) join(list *[]group, d *Component) bool {
	at := -1
	for i := 0; i < len(*list); i++ {
		g := &(*list)[i]
		if !slices.ContainsFunc(g.cpus, func(t *Component) bool { return e.names(t.Container, d) }) {
			continue
		}
		if at < 0 {
			at = i
			continue
		}
		into := &(*list)[at]
		into.devices, into.cpus = append(into.devices, g.devices...), append(into.cpus, g.cpus...)
		*list = slices.Delete(*list, i, i+1)
		i--
	}
	if at < 0 {
		return false
	}
	(*list)[at].devices = append((*list)[at].devices, d)
	return true
}

// names says whether a container names a device's request, or has it of a plugin.
func (e *evaluator) names(container string, d *Component) bool {
	if d.Resource != "" {
		return slices.ContainsFunc(e.observed.Containers, func(f collect.Container) bool {
			return f.Name == container && e.pluginOf(&f, *d.PCI) != nil &&
				slices.ContainsFunc(f.Files, func(file collect.File) bool { return file.PCI == *d.PCI })
		})
	}
	// What no container names is all containers' (docs/decisions/2026-11-22-claims-that-no-container-names.md).
	if !slices.ContainsFunc(e.expected.Containers, func(p expect.Container) bool { return len(p.Uses[d.Claim]) > 0 }) {
		return true
	}
	return slices.ContainsFunc(e.expected.Containers, func(p expect.Container) bool {
		return p.Name == container && p.Names(d.Claim, d.Request)
	})
}

// question is the query of package nearest for one of the groups.
func question(groups []group, of int) nearest.Group {
	var q nearest.Group
	for i, g := range groups {
		cpus := cpuset.New()
		for _, t := range g.cpus {
			cpus = cpus.Union(t.CPUs)
		}
		if i != of {
			q.OtherCPUs = q.OtherCPUs.Union(cpus)
			for _, t := range g.devices {
				q.Others = append(q.Others, *t.PCI)
			}
			continue
		}
		q.CPUs = cpus
		for _, t := range g.devices {
			if t.Kind == expect.GPU {
				q.GPUs = append(q.GPUs, *t.PCI)
			} else {
				q.NICs = append(q.NICs, *t.PCI)
			}
		}
	}
	return q
}

func componentAt(list []*Component, a model.PCIAddress) *Component {
	return list[slices.IndexFunc(list, func(t *Component) bool { return *t.PCI == a })]
}

// could says of a pair how near the machine could have given it. CPUs of several
// containers are queried together: one of them may be nearer than all are.
func could(pairs []Pair, a, b *Component, class affinity.Class) {
	for i := range pairs {
		p := &pairs[i]
		if p.a == a && p.b == b || p.a == b && p.b == a {
			p.Nearest = min(class, p.Class)
		}
	}
}
