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
	// APIVersion may be plumbline.dev/v1alpha1, or left out.
	APIVersion string `json:"apiVersion,omitempty" jsonschema:"enum=plumbline.dev/v1alpha1"`
	// Kind may be NetworkConfig, or left out.
	Kind string `json:"kind,omitempty" jsonschema:"enum=NetworkConfig"`
	// Profile names a set of parameters that the node's cloud provides. They lie
	// below those of the device class.
	Profile *string `json:"profile,omitempty" jsonschema:"maxLength=253"`
	// Interface is the interface itself.
	Interface InterfaceConfig `json:"interface,omitzero"`
	// Routes are routes through the interface. They replace those of lower
	// layers.
	Routes []RouteConfig `json:"routes,omitzero"`
	// Rules are routing rules of the pod. They replace those of lower layers.
	Rules []RuleConfig `json:"rules,omitzero"`
	// Neighbors are permanent ARP and NDP entries. They replace those of lower
	// layers.
	Neighbors []NeighborConfig `json:"neighbors,omitzero"`
	// Sysctls are settings of the pod's network namespace, such as
	// net.ipv4.tcp_rmem, set before a container starts. One of the whole node, such
	// as net.core.rmem_max, is refused. Of conf and neigh those of the interface
	// itself can be set, and of conf all and default. Layers merge by name.
	Sysctls map[string]string `json:"sysctls,omitzero"`
	// Ethtool is what the ethtool command sets.
	Ethtool *EthtoolConfig `json:"ethtool,omitempty"`
	// RDMA is what a NIC with an RDMA device gives beside its verbs.
	RDMA *RDMAConfig `json:"rdma,omitempty"`
	// Environment is whether containers that have the NIC are told of it in the
	// words of a library: none (the default), or nccl: the variables that NCCL and
	// UCX read, and NCCL's topology file. A variable that the container sets
	// itself stays.
	Environment *string `json:"environment,omitempty" jsonschema:"enum=none,enum=nccl,default=none"`
	// Container is what containers that have the NIC get of the host. It is an
	// administrator's to say, in a DeviceClass or by the cloud: a claim with it is
	// refused.
	Container *ContainerConfig `json:"container,omitempty"`
}

// What NetworkConfig.Environment may say.
const (
	EnvironmentNone = "none"
	EnvironmentNCCL = "nccl"
)

// NCCL says whether NetworkConfig.Environment asks for NCCL's variables.
func (c *NetworkConfig) NCCL() bool { return is(c.Environment, EnvironmentNCCL) }

// InterfaceConfig is the interface itself.
type InterfaceConfig struct {
	// Name is the name inside the pod, of 1-15 letters, digits, '-', '_' and
	// '.'; left out, the host's.
	Name *string `json:"name,omitempty" jsonschema:"minLength=1,maxLength=15,pattern=^[A-Za-z0-9._-]+$"`
	// Type is passthrough (the default: the NIC itself moves), macvlan, ipvlan
	// or vlan (a sub-interface moves, the NIC stays).
	Type *string `json:"type,omitempty" jsonschema:"enum=passthrough,enum=macvlan,enum=ipvlan,enum=vlan,default=passthrough"`
	// Mode is a macvlan's (bridge, the default, private, vepa or passthru) or an
	// ipvlan's (l2, the default, l3 or l3s).
	Mode *string `json:"mode,omitempty" jsonschema:"enum=bridge,enum=private,enum=vepa,enum=passthru,enum=l2,enum=l3,enum=l3s"`
	// VLANID is the tag of type vlan, 1-4094.
	VLANID *int32 `json:"vlanID,omitempty" jsonschema:"minimum=1,maximum=4094"`
	// Addressing is static (the default), dhcp or unnumbered (no addresses).
	Addressing *string `json:"addressing,omitempty" jsonschema:"enum=static,enum=dhcp,enum=unnumbered,default=static"`
	// Addresses are addresses with their prefix length, such as 10.0.0.2/24;
	// left out, those that the interface has on the host.
	Addresses []string `json:"addresses,omitzero" jsonschema:"example=10.0.0.2/24"`
	// DHCP asks for addresses; the older spelling of addressing: dhcp. Between
	// layers the two are one field: the upper layer's spelling wins.
	DHCP *bool `json:"dhcp,omitempty"`
	// IPAM takes addresses from a pool of the cluster.
	IPAM *IPAMConfig `json:"ipam,omitempty"`
	// MTU is in bytes, 68-65535, at least 1280 beside IPv6 addresses; left out,
	// the host's. A virtual function's is at most its physical function's.
	MTU *int32 `json:"mtu,omitempty" jsonschema:"minimum=68,maximum=65535"`
	// HardwareAddr is a MAC address of one station, such as 02:00:00:00:00:01;
	// left out, the host's.
	HardwareAddr *string `json:"hardwareAddr,omitempty" jsonschema:"minLength=1,example=02:00:00:00:00:01"`
	// GSOMaxSize is the largest packet handed to segmentation, in bytes: "ip
	// link set gso_max_size". Beyond 65536 it is Big TCP of IPv6.
	GSOMaxSize *int32 `json:"gsoMaxSize,omitempty" jsonschema:"minimum=1,maximum=524280"`
	// GROMaxSize is the largest packet that receiving puts together, in bytes:
	// "ip link set gro_max_size".
	GROMaxSize *int32 `json:"groMaxSize,omitempty" jsonschema:"minimum=1,maximum=524280"`
	// GSOIPv4MaxSize is GSOMaxSize of IPv4 ("ip link set gso_ipv4_max_size").
	GSOIPv4MaxSize *int32 `json:"gsoIPv4MaxSize,omitempty" jsonschema:"minimum=1,maximum=524280"`
	// GROIPv4MaxSize is GROMaxSize of IPv4 ("ip link set gro_ipv4_max_size").
	GROIPv4MaxSize *int32 `json:"groIPv4MaxSize,omitempty" jsonschema:"minimum=1,maximum=524280"`
	// DisableEBPFPrograms takes the host's TC and TCX programs off the
	// interface while the pod has it.
	DisableEBPFPrograms *bool `json:"disableEbpfPrograms,omitempty"`
	// Forwarding lets the pod forward packets that come in by the interface, of
	// both families: the sysctls forwarding.
	Forwarding *bool `json:"forwarding,omitempty"`
	// ARPIgnore is the sysctl arp_ignore: 0-3 or 8.
	ARPIgnore *int32 `json:"arpIgnore,omitempty" jsonschema:"enum=0,enum=1,enum=2,enum=3,enum=8"`
	// ARPAnnounce is the sysctl arp_announce: 0-2.
	ARPAnnounce *int32 `json:"arpAnnounce,omitempty" jsonschema:"minimum=0,maximum=2"`
	// VRF puts the interface into a routing domain of its own.
	VRF *VRFConfig `json:"vrf,omitempty"`
	// VF is what the physical function sets of a virtual one (SR-IOV): "ip link set
	// PF vf N".
	VF *VFConfig `json:"vf,omitempty"`
}

// VFConfig is what the physical function sets of a virtual one. What is left out
// stays as it is on the host.
type VFConfig struct {
	// VLAN is the tag that the NIC puts on all packets of the function, which does
	// not see it: 1-4094, or 0 for none.
	VLAN *int32 `json:"vlan,omitempty" jsonschema:"minimum=0,maximum=4094"`
	// VLANQoS is the priority in the tag, 0-7; left out, 0. Only beside a VLAN.
	VLANQoS *int32 `json:"vlanQoS,omitempty" jsonschema:"minimum=0,maximum=7"`
	// MaxTxRate is the most that the function sends, in Mbit/s; 0 is no limit.
	MaxTxRate *int32 `json:"maxTxRate,omitempty" jsonschema:"minimum=0,maximum=2147483647"`
	// MinTxRate is what the function can send at least, in Mbit/s; 0 is no promise.
	MinTxRate *int32 `json:"minTxRate,omitempty" jsonschema:"minimum=0,maximum=2147483647"`
	// SpoofCheck drops packets that the function sends from an address that is not
	// its own.
	SpoofCheck *bool `json:"spoofCheck,omitempty"`
	// Trust lets the function set what reaches beyond itself, such as promiscuous
	// mode and a MAC address of its choice.
	Trust *bool `json:"trust,omitempty"`
}

// IPAMConfig names a pool of addresses.
type IPAMConfig struct {
	// Pool is the pool's name.
	Pool *string `json:"pool,omitempty" jsonschema:"minLength=1,maxLength=253,pattern=^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"`
}

// VRFConfig is a routing domain: a VRF link in the pod, and its table.
type VRFConfig struct {
	// Name is the VRF's link in the pod. Interfaces that name the same VRF share
	// it.
	Name *string `json:"name,omitempty" jsonschema:"minLength=1,maxLength=15,pattern=^[A-Za-z0-9._-]+$"`
	// Table is its routing table; left out, the driver chooses one that nothing
	// else in the pod uses. Two VRFs of a pod cannot have one table.
	Table *int64 `json:"table,omitempty" jsonschema:"minimum=1,maximum=4294967295"`
}

// RouteConfig is a route through the interface.
type RouteConfig struct {
	// Destination is a prefix such as 10.0.0.0/8. What stands behind the prefix
	// length is ignored.
	Destination *string `json:"destination,omitempty" jsonschema:"required,minLength=1,example=10.0.0.0/8"`
	// Gateway is the next hop, of the destination's family.
	Gateway *string `json:"gateway,omitempty" jsonschema:"minLength=1"`
	// Source is the preferred source address.
	Source *string `json:"source,omitempty" jsonschema:"minLength=1"`
	// Scope is 0 (universe, the default; needs a gateway) or 253 (link).
	Scope *int32 `json:"scope,omitempty" jsonschema:"enum=0,enum=253,default=0"`
	// Table is the routing table; left out or 0, the main one. An interface in a
	// VRF has all its routes in the VRF's table.
	Table *int64 `json:"table,omitempty" jsonschema:"minimum=0,maximum=4294967295"`
	// Metric orders routes to one destination, the least first; left out or 0,
	// the kernel's own: 0 for IPv4, 1024 for IPv6.
	Metric *int64 `json:"metric,omitempty" jsonschema:"minimum=0,maximum=4294967295"`
	// MTU is the largest packet to the destination in bytes, 68-65535, at least
	// 1280 for IPv6; left out, the interface's.
	MTU *int32 `json:"mtu,omitempty" jsonschema:"minimum=68,maximum=65535"`
	// OnLink reaches the gateway through the interface even if no address of it
	// is in the gateway's network.
	OnLink *bool `json:"onlink,omitempty"`
}

// RuleConfig is a routing rule. One with neither source nor destination is for
// all IPv4 packets.
type RuleConfig struct {
	// Priority is 0-32767; left out, the kernel takes the one before the first
	// rule after 0.
	Priority *int32 `json:"priority,omitempty" jsonschema:"minimum=0,maximum=32767"`
	// Source is the prefix that packets come from.
	Source *string `json:"source,omitempty" jsonschema:"minLength=1,example=10.0.0.0/8"`
	// Destination is the prefix that packets go to, of the source's family.
	Destination *string `json:"destination,omitempty" jsonschema:"minLength=1"`
	// Table is the table to look into.
	Table *int64 `json:"table,omitempty" jsonschema:"required,minimum=1,maximum=4294967295"`
}

// NeighborConfig is a permanent ARP or NDP entry.
type NeighborConfig struct {
	// IPAddress is the neighbour's address.
	IPAddress *string `json:"ipAddress,omitempty" jsonschema:"minLength=1,example=10.0.0.9"`
	// Destination is the other spelling of ipAddress.
	Destination *string `json:"destination,omitempty" jsonschema:"minLength=1"`
	// HardwareAddr is the neighbour's hardware address.
	HardwareAddr *string `json:"hardwareAddr,omitempty" jsonschema:"required,minLength=1,example=02:00:00:00:00:09"`
}

// EthtoolConfig is what ethtool sets. Layers merge by feature and by flag.
type EthtoolConfig struct {
	// Features are those of "ethtool -k", by the kernel's names or ethtool's
	// short ones (tso, gro).
	Features map[string]bool `json:"features,omitzero"`
	// PrivateFlags are those of "ethtool --show-priv-flags", which each kernel
	// driver has its own of.
	PrivateFlags map[string]bool `json:"privateFlags,omitzero"`
}

// RDMAConfig asks for character devices that the containers do not get
// otherwise: both can reconfigure the fabric.
type RDMAConfig struct {
	// UMAD gives /dev/infiniband/umadN: management datagrams. Default: false.
	UMAD *bool `json:"umad,omitempty" jsonschema:"default=false"`
	// ISSM gives /dev/infiniband/issmN: to be the subnet's manager. Default:
	// false.
	ISSM *bool `json:"issm,omitempty" jsonschema:"default=false"`
}

// ContainerConfig is what containers get of the host, such as libraries that belong to
// its kernel drivers.
type ContainerConfig struct {
	// Mounts are folders and files of the host, read-only, at most 16. They replace
	// those of lower layers. One where the container mounts something itself is left
	// out.
	Mounts []MountConfig `json:"mounts,omitzero" jsonschema:"maxItems=16"`
	// Env are environment variables, at most 64, each of one line. One that the
	// container sets itself stays. Layers merge by name.
	Env map[string]string `json:"env,omitzero"`
}

// MountConfig is a folder or a file of the host in a container.
type MountConfig struct {
	// HostPath is where it is on the host.
	HostPath *string `json:"hostPath,omitempty" jsonschema:"required,maxLength=1024,pattern=^(/[^/]+)+$,example=/home/kubernetes/bin/gib"`
	// ContainerPath is where the container has it: not at, above or below /dev, /proc,
	// /sys, /var/run and plumbline's own files.
	ContainerPath *string `json:"containerPath,omitempty" jsonschema:"required,maxLength=1024,pattern=^(/[^/]+)+$,example=/usr/local/gib"`
}
