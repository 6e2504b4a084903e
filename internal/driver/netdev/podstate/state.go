// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

// State is the interface as the pod shall see it.
type State struct {
	Name string `json:"name"`
	// Settings are those that the configuration changes.
	Settings  rtnl.Settings  `json:"settings,omitzero"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// VRF is the routing domain that the interface is in.
	VRF *VRF `json:"vrf,omitempty"`
	// Sysctls are the interface's own, such as arp_ignore.
	Sysctls sysctl.Settings `json:"sysctls,omitempty"`
	// PodSysctls are those of the whole namespace, such as net.ipv4.tcp_rmem, and of
	// all its interfaces.
	PodSysctls map[string]string `json:"podSysctls,omitempty"`
	// Forwarding is set for both families; nil leaves the kernel's.
	Forwarding *bool `json:"forwarding,omitempty"`
	// Routes, Rules and Neighbours are the host's.
	Routes     []rtnl.Saved `json:"routes,omitempty"`
	Rules      []rtnl.Saved `json:"rules,omitempty"`
	Neighbours []rtnl.Saved `json:"neighbours,omitempty"`
	// OtherAddresses: the pod does not have the host's addresses, so that the kernel
	// may refuse some of Routes, Rules and Neighbours, which are left out then.
	OtherAddresses bool `json:"otherAddresses,omitempty"`
	// HostTables are the tables of Routes beside the main one.
	HostTables []uint32 `json:"hostTables,omitempty"`
	// Own are those that the configuration adds.
	Own Own `json:"own,omitzero"`
}

// Own are the entries that a configuration adds, each in the order to add it.
type Own struct {
	Routes     []rtnl.RouteConfig `json:"routes,omitempty"`
	Rules      []rtnl.RuleConfig  `json:"rules,omitempty"`
	Neighbours []Neighbour        `json:"neighbours,omitempty"`
}

// Neighbour is a permanent ARP or NDP entry.
type Neighbour struct {
	IP  netip.Addr `json:"ip"`
	MAC string     `json:"mac"`
}

// VRF is a VRF link in the pod.
type VRF struct {
	Name  string `json:"name"`
	Table uint32 `json:"table"`
}

// Place is the destination and table of a route: a route of a configuration replaces
// those of the host with the same.
type Place struct {
	Destination netip.Prefix
	Table       uint32
}

// PlaceOf is the place of a route; table 0 is the main one.
func PlaceOf(destination netip.Prefix, table uint32) Place {
	if table == unix.RT_TABLE_UNSPEC {
		table = unix.RT_TABLE_MAIN
	}
	return Place{Destination: destination.Masked(), Table: table}
}

// Tables are the routing tables that the interface uses in the pod.
func (s *State) Tables() []uint32 {
	list := slices.Clone(s.HostTables)
	if s.VRF != nil {
		list = append(list, s.VRF.Table)
	}
	for _, r := range s.Own.Routes {
		list = append(list, r.Table)
	}
	for _, r := range s.Own.Rules {
		list = append(list, r.Table)
	}
	return list
}
