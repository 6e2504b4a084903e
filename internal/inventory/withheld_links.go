// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// protect returns, by ifindex, why links must never be offered to a pod:
// because the node needs them (Uplink), because such a link stands on them,
// because they belong to a bridge or a bond, because another link would go with
// them, or because a network plugin made them. The reason is one clause after the
// interface's name.
func protect(links []LinkFacts) map[int]string {
	p := protection{reason: map[int]string{}, index: map[int]*LinkFacts{}, ports: map[int][]int{}, upper: map[int]*LinkFacts{}}
	links = slices.SortedFunc(slices.Values(links), func(a, b LinkFacts) int { return cmp.Compare(a.Index, b.Index) })
	for i := range links {
		l := &links[i]
		p.index[l.Index] = l
		if l.Master != nil {
			p.ports[*l.Master] = append(p.ports[*l.Master], l.Index)
		}
		for _, lower := range l.Lower {
			p.upper[lower] = cmp.Or(p.upper[lower], l)
		}
	}
	for _, l := range links {
		if l.Uplink != nil {
			p.below(l.Index, *l.Uplink)
		}
	}
	for _, l := range links {
		if _, known := p.reason[l.Index]; !known {
			if reason := p.own(l); reason != "" {
				p.reason[l.Index] = reason
			}
		}
	}
	return p.reason
}

type protection struct {
	reason map[int]string
	index  map[int]*LinkFacts
	ports  map[int][]int // by master
	// upper is the first link that stands on another, by that one.
	upper map[int]*LinkFacts
}

// below marks a link and all links below it: its ports and its lower link. The map of
// reasons also ends loops.
func (p *protection) below(at int, reason string) {
	if _, known := p.reason[at]; known {
		return
	}
	p.reason[at] = reason
	l := p.index[at]
	if l == nil {
		return
	}
	for _, port := range p.ports[at] {
		p.below(port, fmt.Sprintf("is a port of %s, which %s", l.Name, l.why(p)))
	}
	for _, lower := range l.Lower {
		p.below(lower, fmt.Sprintf("lies below %s, which %s", l.Name, l.why(p)))
	}
}

// why is the reason of the link at the top, so that a stack of links reads as
// one clause, not as a chain.
func (l *LinkFacts) why(p *protection) string {
	reason := p.reason[l.Index]
	if _, last, nested := cutLast(reason, ", which "); nested {
		return last
	}
	return reason
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// own is the reason to withhold a link that is in the link itself.
func (p *protection) own(l LinkFacts) string {
	if l.Master != nil {
		m := p.index[*l.Master]
		switch {
		case m == nil:
			return "is a port of a link in another network namespace"
		case m.kind() != "vrf":
			return fmt.Sprintf("is a port of %s", m.Name)
		}
	}
	switch l.kind() {
	case "bridge", "bond", "team", "openvswitch":
		return "is a " + l.kind()
	}
	if u := p.upper[l.Index]; u != nil {
		return fmt.Sprintf("carries %s %s, which would go with it", cmp.Or(u.kind(), "link"), u.Name)
	}
	if plugin := networkPlugin(l.Name); plugin != "" {
		return "belongs to " + plugin
	}
	return ""
}

func (l *LinkFacts) kind() string {
	if l.Kind == nil {
		return ""
	}
	return *l.Kind
}

// networkPlugin is the network plugin that names its links so. They are virtual links,
// which only Options.Virtual offers: too wide a list there must not cut off the node's
// pods.
func networkPlugin(name string) string {
	for _, p := range []struct{ prefix, owner string }{
		{"cni", "a CNI bridge"},
		{"cali", "Calico"}, {"vxlan.calico", "Calico"}, {"wireguard.cali", "Calico"},
		{"cilium", "Cilium"}, {"lxc", "Cilium"},
		{"flannel", "flannel"},
		{"kube-ipvs", "kube-proxy"}, {"kube-bridge", "kube-router"}, {"nodelocaldns", "the node's DNS cache"},
		{"docker", "Docker"}, {"antrea", "Antrea"}, {"ovn-k8s", "OVN-Kubernetes"}, {"ovs-system", "Open vSwitch"},
		{"weave", "Weave Net"}, {"tunl", "the kernel's tunnels"}, {"genev_sys", "OVN-Kubernetes"},
	} {
		if strings.HasPrefix(name, p.prefix) {
			return p.owner
		}
	}
	return ""
}
