// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostPolicy is what nodes must be, and their links while no pod has them. The agent of each
// node applies it, says in the node's HostReport what became of it, and puts back what was
// there when it goes. Where two policies want different values of one field of one link,
// neither is done.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=hp
// +kubebuilder:printcolumn:name=DryRun,type=boolean,JSONPath=`.spec.dryRun`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type HostPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HostPolicySpec `json:"spec"`
}

// HostPolicySpec is the content of a HostPolicy. What is left out stays as it is.
//
// +kubebuilder:validation:XValidation:rule="has(self.links) || has(self.modules) || has(self.sysctls) || has(self.rdmaNamespaces)",message="want at least one of links, modules, sysctls and rdmaNamespaces"
type HostPolicySpec struct {
	// NodeSelector chooses nodes by their labels; empty is every node with an agent.
	NodeSelector metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// DryRun has agents only say what they would change. What the policy set before
	// stays.
	DryRun bool `json:"dryRun,omitempty"`
	// Links are what links must be.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Links []LinkPolicy `json:"links,omitempty"`

	// Modules are kernel modules to load. Those that were not there are unloaded when the
	// policy goes. It needs plumbline-host-setup.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	Modules []Module `json:"modules,omitempty"`
	// Sysctls are settings of the host by key. Those of kernel and vm need
	// plumbline-host-setup.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['kernel.numa_balancing', 'net.core.netdev_budget', 'net.core.netdev_max_backlog', 'net.core.rmem_default', 'net.core.rmem_max', 'net.core.wmem_default', 'net.core.wmem_max', 'net.ipv4.tcp_mtu_probing', 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem', 'vm.swappiness', 'vm.zone_reclaim_mode'])",message="want keys out of kernel.numa_balancing, net.core.netdev_budget, net.core.netdev_max_backlog, net.core.rmem_default, net.core.rmem_max, net.core.wmem_default, net.core.wmem_max, net.ipv4.tcp_mtu_probing, net.ipv4.tcp_rmem, net.ipv4.tcp_wmem, vm.swappiness and vm.zone_reclaim_mode"
	Sysctls map[string]HostSysctlValue `json:"sysctls,omitempty"`
	// RDMANamespaces is whether network namespaces share RDMA devices (rdma system set
	// netns). The kernel changes it only while there are no namespaces of pods: where it
	// cannot, the result says what to set for the next boot.
	//
	// +kubebuilder:validation:Enum=shared;exclusive
	RDMANamespaces string `json:"rdmaNamespaces,omitempty"`
}

// Module is a kernel module, as the kernel spells it.
//
// +kubebuilder:validation:Enum=gdrdrv;ib_umad;ib_uverbs;nv_peer_mem;nvidia_peermem;rdma_cm;rdma_ucm;tcp_bbr;vfio_pci
type Module string

// HostSysctlValue is a number, or three with a space between.
//
// +kubebuilder:validation:Pattern=`^[0-9]{1,10}( [0-9]{1,10} [0-9]{1,10})?$`
type HostSysctlValue string

// LinkPolicy is what the links must be that exactly one of pciAddress, rdmaDevice,
// interface, driver, role and selector finds. What is left out stays as it is.
//
// +kubebuilder:validation:XValidation:rule="[has(self.pciAddress), has(self.rdmaDevice), has(self.interface), has(self.driver), has(self.role), has(self.selector)].filter(x, x).size() == 1",message="want exactly one of pciAddress, rdmaDevice, interface, driver, role and selector"
// +kubebuilder:validation:XValidation:rule="has(self.up) || has(self.mtu) || has(self.altName) || has(self.sysctls) || has(self.maxReadRequest) || has(self.relaxedOrdering) || has(self.numVFs) || has(self.share)",message="want at least one of up, mtu, altName, sysctls, maxReadRequest, relaxedOrdering, numVFs and share"
type LinkPolicy struct {
	// PCIAddress is such as "0000:91:00.0".
	//
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]$`
	PCIAddress string `json:"pciAddress,omitempty"`
	// RDMADevice is the kernel's name, such as "mlx5_0".
	//
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`
	RDMADevice string `json:"rdmaDevice,omitempty"`
	// Interface is the link's name on the host, which may be another after a reboot.
	//
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`
	Interface string `json:"interface,omitempty"`
	// Driver is the kernel's driver of the PCI function, such as "mlx5_core": all links
	// of it.
	//
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`
	Driver string `json:"driver,omitempty"`
	// Role is "gpu" for all links whose PCI function shares a PCIe root with a GPU, and
	// "other" for those of all other PCI functions.
	//
	// +kubebuilder:validation:Enum=gpu;other
	Role string `json:"role,omitempty"`
	// Selector is of all links of which an expression is true.
	Selector *LinkSelector `json:"selector,omitempty"`

	// Up is whether the link is up.
	Up *bool `json:"up,omitempty"`
	// MTU is in bytes.
	//
	// +kubebuilder:validation:Minimum=68
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
	// AltName is one more name of the link (ip link property add altname), which stays
	// the same over reboots. It is of one link.
	//
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`
	AltName string `json:"altName,omitempty"`
	// Sysctls are settings of the link by key: ipv4/conf/ with arp_announce, arp_filter,
	// arp_ignore, arp_notify or rp_filter.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=5
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['ipv4/conf/arp_announce', 'ipv4/conf/arp_filter', 'ipv4/conf/arp_ignore', 'ipv4/conf/arp_notify', 'ipv4/conf/rp_filter'])",message="want keys out of ipv4/conf/arp_announce, arp_filter, arp_ignore, arp_notify and rp_filter"
	Sysctls map[string]SysctlValue `json:"sysctls,omitempty"`

	// MaxReadRequest is how much the PCI function reads at a time, in bytes. It needs
	// plumbline-host-setup.
	//
	// +kubebuilder:validation:Enum=128;256;512;1024;2048;4096
	MaxReadRequest *int32 `json:"maxReadRequest,omitempty"`
	// RelaxedOrdering is whether writes of the PCI function may pass each other. It needs
	// plumbline-host-setup.
	RelaxedOrdering *bool `json:"relaxedOrdering,omitempty"`
	// NumVFs is how many virtual functions (SR-IOV) the PCI function has, at most its
	// sriov_totalvfs. Another number than 0 is changed through 0: it waits while somebody
	// uses one of them. It needs plumbline-host-setup.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	NumVFs *int32 `json:"numVFs,omitempty"`

	// Share offers the link to many pods at once: it stays on the host, and each holder
	// gets a link of its own on it. What keeps a link from moving into a pod, as the
	// node's default route does, does not keep it from being shared.
	Share *LinkShare `json:"share,omitempty"`
}

// LinkShare is how a link is shared. It is published once, with dra.net/shared and the
// capacities slots and bandwidth, and class shared.dra.net chooses it.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'macvlan' || !has(self.mode) || self.mode in ['bridge', 'private', 'vepa']",message="mode: macvlan has bridge, private and vepa"
// +kubebuilder:validation:XValidation:rule="self.type != 'ipvlan' || !has(self.mode) || self.mode in ['l2', 'l3', 'l3s']",message="mode: ipvlan has l2, l3 and l3s"
// +kubebuilder:validation:XValidation:rule="self.type != 'vlan' || !has(self.mode)",message="mode: vlan has none"
// +kubebuilder:validation:XValidation:rule="self.type == 'ipvlan' || !has(self.flag)",message="flag: only with type ipvlan"
// +kubebuilder:validation:XValidation:rule="(self.type == 'vlan') == has(self.vlanIDs)",message="vlanIDs: with type vlan, and with no other"
type LinkShare struct {
	// Type is the kind of link that a holder gets.
	//
	// +kubebuilder:validation:Enum=macvlan;ipvlan;vlan
	Type string `json:"type"`
	// Mode is that of a macvlan whose claim asks for none (bridge where it is left out), and
	// of all ipvlans (l2): the kernel has one for all of a link.
	//
	// +kubebuilder:validation:Enum=bridge;private;vepa;l2;l3;l3s
	Mode string `json:"mode,omitempty"`
	// Flag is that of all ipvlans: whether they reach each other (bridge, the default), not
	// (private), or by the switch alone (vepa).
	//
	// +kubebuilder:validation:Enum=bridge;private;vepa
	Flag string `json:"flag,omitempty"`
	// VLANIDs are the tags of which a claim chooses one by interface.vlanID. A link has one
	// holder of each.
	VLANIDs *VLANRange `json:"vlanIDs,omitempty"`
	// Slots are how many claims have the link at once.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Slots int32 `json:"slots"`
	// AlsoExclusive offers the link whole as well, by a device of its own whose name ends in
	// -whole: a claim gets it while there is none with a share, and the other way round.
	AlsoExclusive bool `json:"alsoExclusive,omitempty"`
	// IPAM gives an address to the links of claims that say nothing of addresses.
	IPAM *LinkIPAM `json:"ipam,omitempty"`
	// Bandwidth is what claims can take of the link in bits per second, such as 100G. The
	// scheduler counts it; nothing enforces it.
	//
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,5}[MGT]$`
	Bandwidth string `json:"bandwidth,omitempty"`
}

// LinkIPAM names where addresses come from.
type LinkIPAM struct {
	// Pool is the name of a NetworkAddressPool.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Pool string `json:"pool"`
}

// LinkSelector chooses links.
type LinkSelector struct {
	// CEL is an expression as in a DeviceClass, over what the link would be published with if
	// it were not shared, such as device.attributes["dra.net"].rdma. The agent refuses one
	// that does not compile, or fails.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CEL string `json:"cel"`
}

// VLANRange is a range of tags, both ends in it.
//
// +kubebuilder:validation:XValidation:rule="self.first <= self.last",message="want first at most last"
type VLANRange struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	First int32 `json:"first"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	Last int32 `json:"last"`
}

// SysctlValue is a small number.
//
// +kubebuilder:validation:Pattern=`^[0-8]$`
type SysctlValue string

// PolicyResult is what became of a HostPolicy on a host.
type PolicyResult struct {
	// Name is the policy's; empty for what an earlier one set and could not be put back.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Generation is the policy's that this is about.
	Generation int64 `json:"generation,omitempty"`
	// Applied counts fields of links that are as wanted.
	//
	// +kubebuilder:validation:Minimum=0
	Applied int `json:"applied"`
	// Open are the others, as many as there is room for.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Open []FieldResult `json:"open,omitempty"`
}

// FieldResult is a field of a link that is not as a policy wants it.
type FieldResult struct {
	// Link is the PCI address, with the port where there are several, the name of a link
	// that is no PCI function, or what the policy finds it by; empty for the host itself.
	//
	// +kubebuilder:validation:MaxLength=128
	Link string `json:"link,omitempty"`
	// Field is such as "mtu", "altName/storage0", "sysctl/ipv4/conf/arp_ignore" or
	// "module/nvidia_peermem".
	//
	// +kubebuilder:validation:MaxLength=256
	Field string `json:"field,omitempty"`
	// Have and Want are values.
	//
	// +kubebuilder:validation:MaxLength=128
	Have string `json:"have,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	Want string `json:"want,omitempty"`
	// State is planned where it would be changed (dryRun), pending while the link is
	// not there, a pod has it, or plumbline-host-setup has not answered, refused where it will not be done, failed where the
	// kernel refused.
	//
	// +kubebuilder:validation:Enum=planned;pending;refused;failed
	State string `json:"state"`
	// Reason says why.
	//
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// HostPolicyList is a list of them.
//
// +kubebuilder:object:root=true
type HostPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []HostPolicy `json:"items"`
}
