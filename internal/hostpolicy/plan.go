// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
)

// Link is a link of the host, or the host itself.
type Link struct {
	// Key stays the same over reboots: PCI address and port, or the name of what is no
	// PCI function. It is empty for the host itself.
	Key   string
	Name  string
	Index int
	// Function is the PCI address; empty for what is no PCI function.
	Function string
	// needed says why no policy may change it; empty where one may.
	needed string
}

// State is what became of one wish of a policy.
type State string

const (
	// Applied is as wanted.
	Applied State = "applied"
	// Planned would be changed, or was not yet.
	Planned State = "planned"
	// Pending waits for a link that is not there or that a pod has, or for who has more
	// rights.
	Pending State = "pending"
	// Refused will not be done; Reason says why.
	Refused State = "refused"
	// Failed was tried; Reason is the kernel's.
	Failed State = "failed"
)

// Result is what became of one field of one link.
type Result struct {
	Policy     string
	Generation int64
	// Link is the key of the link, or what the policy finds it by.
	Link, Field  string
	Before, Want string
	State        State
	Reason       string
}

// Step is one change of the host.
type Step struct {
	Link         Link
	Field        string
	Before, Want string
	// Undo puts back what nobody wants any more, and Forget only drops its record.
	Undo, Forget bool
}

// writes are the values that a step may leave behind, whoever ends it half-way: the kernel
// changes a number of virtual functions through 0.
func (s Step) writes() []string {
	if s.Field == fieldNumVFs && s.Before != "0" && s.Want != "0" {
		return []string{"0", s.Want}
	}
	return []string{s.Want}
}

// Plan is what to do, undoing first, and what becomes of each wish.
type Plan struct {
	Steps   []Step
	Results []Result
}

type target struct{ link, field string }

type planner struct {
	machine *model.Machine
	links   map[string]Link
	record  Record
	kernel  Reader
	kept    map[target]bool
	claims  map[target][]int // results of policies that act, by what they want
	shown   map[target][]int // and of those that only tell
	results []Result
}

// NewPlan holds policies against the links of a scan, which has none that a pod holds.
// It changes nothing. Policies must be valid.
func NewPlan(policies []Policy, machine *model.Machine, record Record, kernel Reader) Plan {
	p := &planner{machine: machine, links: linksOf(machine), record: record, kernel: kernel, kept: map[target]bool{}, claims: map[target][]int{}, shown: map[target][]int{}}
	for _, policy := range slices.SortedFunc(slices.Values(policies), func(a, b Policy) int { return cmp.Compare(a.Name, b.Name) }) {
		for _, l := range policy.Links {
			p.wishLinks(policy, l)
		}
		wants := policy.wants()
		for _, field := range slices.Sorted(maps.Keys(wants)) {
			p.wish(policy, Link{}, Result{Field: field, Want: wants[field], State: Planned})
		}
	}
	p.refuseSharedNames()
	steps := p.change()
	for at, indexes := range p.shown {
		p.look(at, indexes)
	}
	return Plan{Steps: append(p.undo(), steps...), Results: p.results}
}

// linksOf are the links by key, the host among them.
func linksOf(machine *model.Machine) map[string]Link {
	links := map[string]Link{"": {}}
	for i := range machine.NICs {
		if l, ok := linkOf(&machine.NICs[i]); ok {
			links[l.Key] = l
		}
	}
	return links
}

func linkOf(n *model.NIC) (Link, bool) {
	if n.Interface == nil {
		return Link{}, false
	}
	l := Link{Key: n.Interface.Name, Name: n.Interface.Name, Index: n.Interface.Index}
	if n.PCI != nil {
		l.Function = n.PCI.String()
		l.Key = l.Function
		if n.Port != nil {
			l.Key += "/" + *n.Port
		}
	}
	if n.Withheld != nil && !n.WithheldForVFs {
		l.needed = *n.Withheld
	}
	return l, true
}

// find returns the links that a policy means, and what it finds them by. The error is why it
// cannot be said of one.
func (l LinkPolicy) find(machine *model.Machine) (found []Link, by string, err error) {
	by, _ = l.finder()
	means := l.means
	if l.CEL != "" {
		selected, err := l.selector(machine)
		if err != nil {
			return nil, by, err
		}
		means = selected
	}
	for i := range machine.NICs {
		n := &machine.NICs[i]
		link, ok := linkOf(n)
		if !ok {
			continue
		}
		meant, err := means(machine, n)
		if err != nil {
			return nil, by, fmt.Errorf("link %s: %w", link.Name, err)
		}
		if meant {
			found = append(found, link)
		}
	}
	return found, by, nil
}

// finder is what links are found by, as text, and how many of such there are.
func (l LinkPolicy) finder() (by string, given int) {
	for _, f := range [][2]string{
		{"pciAddress", l.PCIAddress}, {"rdmaDevice", l.RDMADevice}, {"interface", l.Interface}, {"driver", l.Driver}, {"role", string(l.Role)},
		{"selector.cel", l.CEL},
	} {
		if f[1] != "" {
			by, given = f[0]+" "+f[1], given+1
		}
	}
	return by, given
}

// means says whether a policy means a NIC with an interface. It does not fail.
func (l LinkPolicy) means(m *model.Machine, n *model.NIC) (bool, error) {
	switch {
	case l.RDMADevice != "":
		return n.RDMA != nil && n.RDMA.Name == l.RDMADevice, nil
	case l.Interface != "":
		return n.Interface.Name == l.Interface, nil
	case n.PCI == nil:
		return false, nil
	case l.PCIAddress != "":
		return n.PCI.String() == l.PCIAddress, nil
	case l.Role != "":
		return roleOf(m, n) == l.Role, nil
	}
	i := slices.IndexFunc(m.Functions, func(f model.PCIFunction) bool { return f.Address == *n.PCI })
	return i >= 0 && m.Functions[i].Driver != nil && *m.Functions[i].Driver == l.Driver, nil
}

func roleOf(m *model.Machine, n *model.NIC) Role {
	for _, g := range m.GPUs {
		if affinity.Between(m, affinity.OfGPU(g), affinity.OfNIC(*n)).SharesRoot() {
			return RoleGPU
		}
	}
	return RoleOther
}

func (p *planner) wishLinks(policy Policy, l LinkPolicy) {
	all, by, err := l.find(p.machine)
	wants := l.wants()
	for _, field := range slices.Sorted(maps.Keys(wants)) {
		found := all
		if field == fieldNumVFs && (l.Driver != "" || l.Role != "" || l.CEL != "") {
			found = p.physical(all)
		}
		r := Result{Link: by, Field: field, Want: wants[field], State: Planned}
		switch {
		case err != nil:
			r.State, r.Reason = Refused, err.Error()
			p.add(policy, r)
			continue
		case len(found) == 0:
			r.State, r.Reason = Pending, "the host has no such link now: it is not there, or a pod has it"
			p.add(policy, r)
			continue
		case strings.HasPrefix(field, fieldAltName) && len(found) > 1:
			r.State, r.Reason = Refused, fmt.Sprintf("%d links match, and a name is of one: want the link's pciAddress", len(found))
			p.add(policy, r)
			continue
		}
		for _, link := range found {
			p.wish(policy, link, r)
		}
	}
}

// wish notes what a policy wants of a link that is there.
func (p *planner) wish(policy Policy, link Link, r Result) {
	r.Link = link.Key
	at := target{link.Key, r.Field}
	p.kept[at] = true
	switch {
	case link.needed != "" && r.Field != fieldShare: // the node keeps a link that is shared
		r.State, r.Reason = Refused, fmt.Sprintf("link %s is the node's: %s", link.Name, link.needed)
	case ofFunction(r.Field) && link.Function == "":
		r.State, r.Reason = Refused, fmt.Sprintf("link %s is no PCI function", link.Name)
	case r.Field == fieldNumVFs:
		if reason := p.cannotHave(link, r.Want); reason != "" {
			r.State, r.Reason = Refused, reason
		}
	}
	by := p.claims
	if policy.DryRun {
		by = p.shown
	}
	by[at] = append(by[at], p.add(policy, r))
}

// add returns the result's index.
func (p *planner) add(policy Policy, r Result) int {
	r.Policy, r.Generation = policy.Name, policy.Generation
	p.results = append(p.results, r)
	return len(p.results) - 1
}

// refuseSharedNames refuses a name that several links would get.
func (p *planner) refuseSharedNames() {
	links := map[string]map[string]bool{}
	for at := range p.claims {
		if strings.HasPrefix(at.field, fieldAltName) {
			if links[at.field] == nil {
				links[at.field] = map[string]bool{}
			}
			links[at.field][at.link] = true
		}
	}
	for at, indexes := range p.claims {
		if len(links[at.field]) > 1 {
			p.refuse(indexes, "policies want the name for several links: "+strings.Join(slices.Sorted(maps.Keys(links[at.field])), ", "))
		}
	}
}

func (p *planner) refuse(indexes []int, reason string) {
	for _, i := range indexes {
		p.results[i].State, p.results[i].Reason = Refused, reason
	}
}

// change returns the steps towards what policies want and agree on.
func (p *planner) change() []Step {
	var steps []Step
	order := slices.SortedFunc(maps.Keys(p.claims), func(a, b target) int {
		return cmp.Or(cmp.Compare(a.link, b.link), cmp.Compare(a.field, b.field))
	})
	for _, at := range order {
		indexes := p.claims[at]
		first := p.results[indexes[0]]
		for _, i := range indexes {
			if r := p.results[i]; r.Want != first.Want && r.State != Refused {
				p.refuse(indexes, fmt.Sprintf("policies %s and %s want %q and %q: neither is done", first.Policy, r.Policy, first.Want, r.Want))
			}
		}
		p.look(at, indexes)
		if r := p.results[indexes[0]]; r.State == Planned {
			steps = append(steps, Step{Link: p.links[at.link], Field: at.field, Before: r.Before, Want: r.Want})
		}
	}
	return steps
}

// look puts what is so into results that are not refused.
func (p *planner) look(at target, indexes []int) {
	have, err := p.kernel.Read(p.links[at.link], at.field)
	for _, i := range indexes {
		r := &p.results[i]
		switch {
		case r.State == Refused:
			continue
		case err != nil:
			r.State, r.Reason = Failed, err.Error()
		case have == r.Want:
			r.State = Applied
		default:
			if reason := p.waits(p.links[at.link], at.field, r.Want); reason != "" {
				r.State, r.Reason = Pending, reason
			}
		}
		r.Before = have
	}
}

// undo returns the steps back from what no policy names any more. A link that is away is
// left alone, and its record kept: a policy may find it when it is back.
func (p *planner) undo() []Step {
	var steps []Step
	for _, e := range p.record.Entries {
		link, there := p.links[e.Link]
		switch {
		case p.kept[target{e.Link, e.Field}]:
		case there:
			if s, left := p.undoEntry(e, link); left == "" {
				steps = append(steps, s)
			}
		case p.functionGone(e.Link):
			steps = append(steps, Step{Link: Link{Key: e.Link}, Field: e.Field, Want: e.Before, Undo: true, Forget: true})
		}
	}
	return steps
}

// undoEntry returns the step that puts a value back, or why there is none now, which it
// adds to the results.
func (p *planner) undoEntry(e Entry, link Link) (s Step, left string) {
	s = Step{Link: link, Field: e.Field, Want: e.Before, Undo: true}
	have, err := p.kernel.Read(link, e.Field)
	s.Before = have
	r := notPutBack(s)
	switch {
	case err != nil:
		r.State, left = Failed, err.Error()
	case p.over(e, link, have):
		s.Forget = true
	case link.needed != "" && e.Field != fieldShare:
		r.State, left = Refused, fmt.Sprintf("link %s is the node's: %s", link.Name, link.needed)
	default:
		r.State, left = Pending, p.waits(link, e.Field, e.Before)
	}
	if left != "" {
		r.Reason += left
		p.results = append(p.results, r)
	}
	return s, left
}

// notPutBack is the result of a step of undoing that is not done; the reason is to be
// added.
func notPutBack(s Step) Result {
	return Result{Link: s.Link.Key, Field: s.Field, Before: s.Before, Want: s.Want, Reason: "not put back: "}
}

// over says whether nothing is to be put back: it is as it was and stays so, or somebody
// else has set it since, and it is theirs.
func (p *planner) over(e Entry, link Link, have string) bool {
	if have == e.Before {
		return !p.kernel.Unsettled(link, e.Field)
	}
	return !slices.Contains(e.Set, have)
}
