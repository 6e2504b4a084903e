// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/plural"
)

// CheckAlike is the check that compares a host with others of its kind.
const CheckAlike = "alike"

// Peer is a host among others.
type Peer struct {
	Name string
	// Type says more of its kind than its profile can: machines of a cloud are called
	// alike, whatever their size.
	Type    string
	Profile hosts.HostProfile
}

// Group is hosts of one kind: the same machine with the same processor and models of
// GPUs. How many GPUs, and which NICs, is no part of it: one that is gone would make a
// host a kind of its own, in which nobody misses it.
type Group struct {
	Type    string   `json:"type,omitempty"`
	Machine string   `json:"machine,omitempty"`
	CPU     string   `json:"cpu,omitempty"`
	GPUs    []string `json:"gpus,omitempty"`
	// Hosts are their names.
	Hosts []string `json:"hosts"`
	// Undecided are fields in which the hosts differ without a value that most have.
	Undecided []Undecided `json:"undecided,omitempty"`
}

// Undecided is a field of a group without a majority.
type Undecided struct {
	// Subject is the devices that it is about; empty for the host.
	Subject string  `json:"subject,omitempty"`
	Field   string  `json:"field"`
	Values  []Share `json:"values"`
}

// Share is a value with the hosts that have it.
type Share struct {
	Value string   `json:"value"`
	Hosts []string `json:"hosts"`
}

// Compare groups hosts, and finds those that are not as most of their group are, by
// name. Groups are in the order of their size; the largest comes first.
func Compare(peers []Peer) (groups []Group, odd map[string][]hosts.Finding) {
	members := map[string][]Peer{}
	kinds := map[string]Group{}
	for _, p := range peers {
		g := groupOf(p)
		key := fmt.Sprintf("%q", []string{g.Type, g.Machine, g.CPU, strings.Join(g.GPUs, "\n")})
		members[key], kinds[key] = append(members[key], p), g
	}
	odd = map[string][]hosts.Finding{}
	for key, g := range kinds {
		all := members[key]
		slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
		for _, p := range all {
			g.Hosts = append(g.Hosts, p.Name)
		}
		g.compare(all, odd)
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(b.Hosts), len(a.Hosts)), cmp.Compare(a.Hosts[0], b.Hosts[0]))
	})
	return groups, odd
}

func groupOf(p Peer) Group {
	g := Group{Type: p.Type, Machine: p.Profile.Settings[settingMachine], CPU: p.Profile.Settings[settingCPU]}
	for _, d := range p.Profile.Devices {
		if d.Kind == kindGPU && !slices.Contains(g.GPUs, d.ID) {
			g.GPUs = append(g.GPUs, d.ID)
		}
	}
	slices.Sort(g.GPUs)
	return g
}

// String is what people call the group.
func (g Group) String() string {
	words := []string{cmp.Or(g.Type, g.Machine, g.CPU, "machines without a name")}
	if len(g.GPUs) > 0 {
		words = append(words, "with GPUs "+strings.Join(g.GPUs, ", "))
	}
	return strings.Join(words, " ")
}

// compare adds what is to be said of its hosts, which are all of the group.
func (g *Group) compare(all []Peer, odd map[string][]hosts.Finding) {
	if len(all) < 2 {
		return
	}
	profiles := make([]values, len(all))
	models := map[string]string{}
	for i, p := range all {
		profiles[i] = valuesOf(p.Profile)
		for device, model := range profiles[i].devices {
			models[device] = cmp.Or(models[device], model)
		}
	}
	for _, f := range fieldsOf(profiles...) {
		shares, known := f.shares(all, profiles)
		if len(shares) < 2 {
			continue
		}
		r := f.finding(CheckAlike, models[f.device])
		most := shares[0]
		if 2*len(most.Hosts) <= known {
			g.Undecided = append(g.Undecided, Undecided{Subject: r.Subject, Field: f.name, Values: shares})
			continue
		}
		m, _ := meaningOf(f)
		r.Verdict, r.Want, r.Fix = hosts.Wrong, f.name+" "+most.Value, m.fix
		for _, other := range shares[1:] {
			r.Found = fmt.Sprintf("%s: %d of %s: %s, this one: %s", f.name, len(most.Hosts), plural.Count(known, "node", "nodes"), most.Value, other.Value)
			for _, name := range other.Hosts {
				odd[name] = append(odd[name], r)
			}
		}
	}
}

// shares are the values of a field, the one that most hosts have first, and how many
// hosts are known to have any.
func (f field) shares(all []Peer, profiles []values) (shares []Share, known int) {
	for i, p := range all {
		value, ok := profiles[i].get(f)
		if !ok {
			continue
		}
		known++
		at := slices.IndexFunc(shares, func(s Share) bool { return s.Value == value })
		if at < 0 {
			at = len(shares)
			shares = append(shares, Share{Value: value})
		}
		shares[at].Hosts = append(shares[at].Hosts, p.Name)
	}
	slices.SortStableFunc(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(len(b.Hosts), len(a.Hosts)), cmp.Compare(a.Value, b.Value))
	})
	return shares, known
}
