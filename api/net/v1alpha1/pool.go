// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkAddressPool is a set of addresses that claims take by interface.ipam.pool. The
// operator carves a block of them for each node; the node's agent gives addresses out of its
// block without asking anybody.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=nap
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Subnets,type=string,JSONPath=`.status.subnets`
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Blocks,type=integer,JSONPath=`.status.blocks`
// +kubebuilder:printcolumn:name=Free-Blocks,type=integer,JSONPath=`.status.freeBlocks`
// +kubebuilder:printcolumn:name=Used,type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="want a name of at most 63 characters"
type NetworkAddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkAddressPoolSpec   `json:"spec"`
	Status NetworkAddressPoolStatus `json:"status,omitempty"`
}

// NetworkAddressPoolSpec is the content of a NetworkAddressPool.
//
// +kubebuilder:validation:XValidation:rule="self.subnets.size() == 1 || cidr(self.subnets[0].cidr).ip().family() != cidr(self.subnets[1].cidr).ip().family()",message="subnets: want one of each family at most"
// +kubebuilder:validation:XValidation:rule="self.subnets.size() == oldSelf.subnets.size() && self.subnets.all(s, oldSelf.subnets.exists(o, o.cidr == s.cidr && o.blockSize == s.blockSize))",message="subnets: cidr and blockSize cannot change: want another pool"
type NetworkAddressPoolSpec struct {
	// NodeSelector chooses the nodes that get a block; empty is every node with an agent.
	NodeSelector metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Subnets are one of each family at most. A claim gets an address of each.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +listType=atomic
	Subnets []AddressSubnet `json:"subnets"`
	// Routes are routes through the interface, beside that to the subnet, for claims that
	// have none of their own.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Routes []PoolRoute `json:"routes,omitempty"`
}

// AddressSubnet is a subnet whose addresses are given out.
//
// +kubebuilder:validation:XValidation:rule="cidr(self.cidr) == cidr(self.cidr).masked()",message="cidr: want its first address, with no bits behind the prefix"
// +kubebuilder:validation:XValidation:rule="self.blockSize >= cidr(self.cidr).prefixLength() && self.blockSize <= (cidr(self.cidr).ip().family() == 4 ? 32 : 128) && self.blockSize - cidr(self.cidr).prefixLength() <= 16",message="blockSize: want a prefix length from the subnet's to the family's, and at most 65536 blocks"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || cidr(self.cidr).containsIP(self.gateway)",message="gateway: want an address of the subnet"
// +kubebuilder:validation:XValidation:rule="!has(self.exclude) || self.exclude.all(e, isIP(e) ? cidr(self.cidr).containsIP(e) : !isCIDR(e) || cidr(self.cidr).containsCIDR(e))",message="exclude: want addresses and subnets of the subnet"
type AddressSubnet struct {
	// CIDR is such as "192.168.111.0/24": interfaces have its prefix length.
	//
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="want a subnet such as 192.168.111.0/24"
	// +kubebuilder:validation:MaxLength=64
	CIDR string `json:"cidr"`
	// BlockSize is the prefix length of a node's block, such as 28 for 16 addresses.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	BlockSize int32 `json:"blockSize"`
	// Gateway is never given out.
	//
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="want an address"
	// +kubebuilder:validation:MaxLength=64
	Gateway string `json:"gateway,omitempty"`
	// Exclude are addresses and subnets that are never given out. Those that claims have
	// already stay theirs.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) || isCIDR(self)",message="want an address or a subnet"
	// +listType=set
	Exclude []string `json:"exclude,omitempty"`
}

// PoolRoute is a route through the interface.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || ip(self.gateway).family() == cidr(self.destination).ip().family()",message="gateway: want an address of the destination's family"
type PoolRoute struct {
	// Destination is a subnet such as "10.0.0.0/8".
	//
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="want a subnet such as 10.0.0.0/8"
	// +kubebuilder:validation:MaxLength=64
	Destination string `json:"destination"`
	// Gateway is the next hop; left out, that of the subnet of the destination's family.
	//
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="want an address"
	// +kubebuilder:validation:MaxLength=64
	Gateway string `json:"gateway,omitempty"`
}

// NetworkAddressPoolStatus is what the operator sees.
type NetworkAddressPoolStatus struct {
	// Conditions has Ready: every node that is to have a block has one.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the spec's that this is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Blocks are those of nodes, FreeBlocks what more there is room for.
	Blocks     int64 `json:"blocks"`
	FreeBlocks int64 `json:"freeBlocks"`
	// Used are the addresses that claims have, as agents say.
	Used int64 `json:"used"`
	// InUseExcluded are those of Used that nobody gets any more: the gateway, and what
	// exclude has.
	InUseExcluded int64 `json:"inUseExcluded,omitempty"`
	// Subnets are the spec's as one text, for people.
	Subnets string `json:"subnets,omitempty"`
}

// NetworkAddressBlock is what one node has of a pool. The operator makes it, and nobody
// needs to write it. Its name is the pool's with the block's number, POOL.NUMBER: no
// two blocks of a pool are the same.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=nab
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Pool,type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name=Node,type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name=Ranges,type=string,JSONPath=`.spec.ranges`
// +kubebuilder:printcolumn:name=Used,type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="spec: cannot change"
type NetworkAddressBlock struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkAddressBlockSpec   `json:"spec"`
	Status NetworkAddressBlockStatus `json:"status,omitempty"`
}

// NetworkAddressBlockSpec is the content of a NetworkAddressBlock.
type NetworkAddressBlockSpec struct {
	// Pool is the pool's name, Node the node's.
	//
	// +kubebuilder:validation:MaxLength=63
	Pool string `json:"pool"`
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// Ranges are the node's parts of the pool's subnets, such as "192.168.111.16/28".
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	Ranges []string `json:"ranges"`
}

// NetworkAddressBlockStatus is what the node's agent says.
type NetworkAddressBlockStatus struct {
	// Used are the addresses of the block that claims have.
	//
	// +kubebuilder:validation:Minimum=0
	Used int64 `json:"used"`
	// InUseExcluded are those of Used that nobody gets any more: the gateway, and what the
	// pool's exclude has.
	//
	// +kubebuilder:validation:Minimum=0
	InUseExcluded int64 `json:"inUseExcluded,omitempty"`
	// GivenBack is true of a block that is being deleted once no claim has an address of
	// it, and none will.
	GivenBack bool `json:"givenBack,omitempty"`
}

// BlockFinalizer keeps a block from going before its node's agent gave it back.
const BlockFinalizer = "plumbline.dev/addresses"

// NetworkAddressPoolList is a list of them.
//
// +kubebuilder:object:root=true
type NetworkAddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NetworkAddressPool `json:"items"`
}

// NetworkAddressBlockList is a list of them.
//
// +kubebuilder:object:root=true
type NetworkAddressBlockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NetworkAddressBlock `json:"items"`
}

// NodeLabel is the label of a block by which its node's agent finds it, and NodeLabelValue
// the value for a node: its name, or a digest of a name that is too long for a label.
const NodeLabel = "plumbline.dev/node"

// NodeLabelValue is the value of NodeLabel for a node.
func NodeLabelValue(node string) string {
	if len(node) <= 63 {
		return node
	}
	sum := sha256.Sum256([]byte(node))
	return "sha256-" + hex.EncodeToString(sum[:16])
}
