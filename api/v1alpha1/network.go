// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// APIVersion is what apiVersion may say. It may also be left out.
const APIVersion = "plumbline.dev/v1alpha1"

// NetworkConfigKind is what kind may say. It may also be left out.
const NetworkConfigKind = "NetworkConfig"

// NetworkConfig is how a NIC shall look inside the pod: the opaque parameters
// of driver dra.net. A field that is left out is not the same as one that is
// zero: false, 0 and an empty list are decisions, and win over lower layers.
type NetworkConfig struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// Profile names a set of parameters that the node's cloud provides.
	Profile   *string         `json:"profile,omitempty"`
	Interface InterfaceConfig `json:"interface,omitzero"`
	// Routes, Rules and Neighbors replace those of lower layers.
	Routes    []RouteConfig    `json:"routes,omitempty"`
	Rules     []RuleConfig     `json:"rules,omitempty"`
	Neighbors []NeighborConfig `json:"neighbors,omitempty"`
	Ethtool   *EthtoolConfig   `json:"ethtool,omitempty"`
}

// InterfaceConfig is the interface itself.
type InterfaceConfig struct {
	// Name is the name inside the pod; left out, the host's.
	Name *string `json:"name,omitempty"`
	// Type is passthrough (the default: the NIC itself moves), macvlan, ipvlan
	// or vlan (a sub-interface moves, the NIC stays).
	Type *string `json:"type,omitempty"`
	// Mode is the macvlan's or ipvlan's mode.
	Mode *string `json:"mode,omitempty"`
	// VLANID is the VLAN's tag, 1-4094.
	VLANID *int32 `json:"vlanID,omitempty"`
	// Addressing is static (the default), dhcp or unnumbered (no addresses).
	Addressing *string `json:"addressing,omitempty"`
	// Addresses are addresses with their prefix length, such as 10.0.0.2/24;
	// left out, those that the interface has on the host.
	Addresses []string `json:"addresses,omitempty"`
	// DHCP asks for addresses; the older spelling of addressing: dhcp.
	DHCP *bool `json:"dhcp,omitempty"`
	// IPAM takes addresses from a pool of the cluster.
	IPAM *IPAMConfig `json:"ipam,omitempty"`
	// MTU is in bytes, at least 68; left out, the host's.
	MTU *int32 `json:"mtu,omitempty"`
	// HardwareAddr is a MAC address.
	HardwareAddr *string `json:"hardwareAddr,omitempty"`
	// GSOMaxSize and the others are limits of segmentation and receive offload
	// in bytes, as "ip link set gso_max_size" sets.
	GSOMaxSize     *int32 `json:"gsoMaxSize,omitempty"`
	GROMaxSize     *int32 `json:"groMaxSize,omitempty"`
	GSOIPv4MaxSize *int32 `json:"gsoIPv4MaxSize,omitempty"`
	GROIPv4MaxSize *int32 `json:"groIPv4MaxSize,omitempty"`
	// DisableEBPFPrograms takes the host's TC and TCX programs off the
	// interface.
	DisableEBPFPrograms *bool `json:"disableEbpfPrograms,omitempty"`
	// Forwarding lets the pod forward packets that come in by the interface.
	Forwarding *bool `json:"forwarding,omitempty"`
	// ARPIgnore is 0-3 or 8, ARPAnnounce 0-2: the sysctls arp_ignore and
	// arp_announce.
	ARPIgnore   *int32     `json:"arpIgnore,omitempty"`
	ARPAnnounce *int32     `json:"arpAnnounce,omitempty"`
	VRF         *VRFConfig `json:"vrf,omitempty"`
}

// IPAMConfig names a pool of addresses.
type IPAMConfig struct {
	Pool *string `json:"pool,omitempty"`
}

// VRFConfig puts the interface into a routing domain of its own.
type VRFConfig struct {
	// Name is the VRF's link.
	Name *string `json:"name,omitempty"`
	// Table is its routing table; left out, one that no other VRF has.
	Table *int64 `json:"table,omitempty"`
}

// RouteConfig is a route through the interface.
type RouteConfig struct {
	// Destination is a prefix such as 10.0.0.0/8.
	Destination *string `json:"destination,omitempty"`
	Gateway     *string `json:"gateway,omitempty"`
	// Source is the preferred source address.
	Source *string `json:"source,omitempty"`
	// Scope is 0 (universe; needs a gateway) or 253 (link).
	Scope *int32 `json:"scope,omitempty"`
	// Table is the routing table; left out or 0, the main one.
	Table *int64 `json:"table,omitempty"`
}

// RuleConfig is a routing rule.
type RuleConfig struct {
	// Priority is 0-32767.
	Priority    *int32  `json:"priority,omitempty"`
	Source      *string `json:"source,omitempty"`
	Destination *string `json:"destination,omitempty"`
	Table       *int64  `json:"table,omitempty"`
}

// NeighborConfig is a permanent ARP or NDP entry.
type NeighborConfig struct {
	// IPAddress is the neighbour's address; Destination is its other spelling.
	IPAddress    *string `json:"ipAddress,omitempty"`
	Destination  *string `json:"destination,omitempty"`
	HardwareAddr *string `json:"hardwareAddr,omitempty"`
}

// EthtoolConfig is what ethtool -K and --set-priv-flags set. Layers merge by
// feature and flag.
type EthtoolConfig struct {
	Features     map[string]bool `json:"features,omitempty"`
	PrivateFlags map[string]bool `json:"privateFlags,omitempty"`
}
