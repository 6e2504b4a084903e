// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"net/netip"

	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

// State is the interface on the host before it moved: what undoing restores.
type State struct {
	Name string `json:"name"`
	// Index tells virtual links with one MAC apart; it may change when the link
	// moves.
	Index        int     `json:"index"`
	PermanentMAC *string `json:"permanentMAC,omitempty"`
	Kind         *string `json:"kind,omitempty"`
	// AltNames are its other names on the host, sorted.
	AltNames []string `json:"altNames,omitempty"`
	// Up is the administrator's setting.
	Up       bool          `json:"up"`
	Settings rtnl.Settings `json:"settings"`
	// VRF is the VRF that the link is in.
	VRF *string `json:"vrf,omitempty"`
	// Addresses and Routes are those that the kernel does not make by itself.
	// Routes include multipath routes that other links share in.
	Addresses []rtnl.Saved `json:"addresses,omitempty"`
	Routes    []Route      `json:"routes,omitempty"`
	Neighbourhood
	// Prefixes are those of Addresses.
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	// Rules are those that name the link. The kernel keeps them while it is
	// away.
	Rules []rtnl.Saved `json:"rules,omitempty"`
	// Sysctls are the interface's own (/proc/sys/net/*/*/<interface>).
	Sysctls sysctl.Settings `json:"sysctls,omitempty"`
	// Root and Ingress are queueing disciplines that the kernel does not make by
	// itself.
	Root    *rtnl.Qdisc `json:"root,omitempty"`
	Ingress *rtnl.Qdisc `json:"ingress,omitempty"`
	// VF is what a configuration changes of a virtual function at its physical one;
	// nil for nothing.
	VF *VF `json:"vf,omitempty"`
	// XDP: an XDP program was on it, which is not restored (AllowLoss).
	XDP bool `json:"xdp,omitempty"`

	Device
}

// Neighbourhood is what an administrator configured of a link's neighbours, proxy
// entries and further link layer addresses.
type Neighbourhood struct {
	// Neighbours are the permanent ones, Proxies the addresses it answers for.
	Neighbours []rtnl.Saved `json:"neighbours,omitempty"`
	Proxies    []rtnl.Saved `json:"proxies,omitempty"`
	// UnicastEntries and Multicast are addresses of the link layer that it takes
	// beside its own.
	UnicastEntries []rtnl.Saved `json:"stations,omitempty"`
	Multicast      []string     `json:"multicast,omitempty"`
}

// Device is what a device keeps when it moves: staging changes it, and a pod may.
type Device struct {
	// Features are those that can be changed, as they were requested
	// (ethtool.Feature.Requested).
	Features map[string]bool `json:"features,omitempty"`
	// PrivateFlags are the driver's own; nil where it has none.
	PrivateFlags map[string]bool `json:"privateFlags,omitempty"`
	// Ethtool is what else can be set of it; nil in a record of a version that
	// did not read it.
	Ethtool ethtool.Settings `json:"ethtool,omitempty"`
	// Programs are the eBPF programs on it, and Key is what they are held under;
	// empty where they are not.
	Programs []bpf.Attachment `json:"programs,omitempty"`
	Key      string           `json:"key,omitempty"`
}

// Route is a route that goes away with the link.
type Route struct {
	rtnl.Saved
	// Others are the other links it needs, by the ifindexes in its message: the
	// route cannot exist while one of them is away.
	Others []OtherLink `json:"others,omitempty"`
}

// addRoutes adds routes, each once.
func (s *State) addRoutes(routes []Route) {
	known := make(messages, len(s.Routes))
	for _, r := range s.Routes {
		known.add(r.Saved)
	}
	for _, r := range routes {
		if !known.has(r.Saved) {
			known.add(r.Saved)
			s.Routes = append(s.Routes, r)
		}
	}
}

// OtherLink is another link of a route, or the owner of its source address.
type OtherLink struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
}

// HostNIC is a NIC on the host: its state, and what of it a pod may get.
type HostNIC struct {
	State State
	// Addresses are those of global scope.
	Addresses []netip.Prefix
	// Routes are those through this link alone, and Rules lead to their tables.
	Routes []rtnl.Route
	Rules  []rtnl.Rule
	// Features are all that the device has.
	Features []ethtool.Feature
}
