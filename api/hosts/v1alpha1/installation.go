// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// InstallationName is that of the one Installation of a cluster.
const InstallationName = "plumbline"

// Installation says how far plumbline serves a cluster. There is one, named plumbline;
// the operator makes it, and nobody needs to write it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Nodes,type=integer,JSONPath=`.status.nodes.wanted`
// +kubebuilder:printcolumn:name=Serving,type=integer,JSONPath=`.status.nodes.serving`
// +kubebuilder:printcolumn:name=Hosts-Wrong,type=integer,JSONPath=`.status.nodes.hostsWrong`
// +kubebuilder:printcolumn:name=Version,type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'plumbline'",message="the one Installation of a cluster is called plumbline"
type Installation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status InstallationStatus `json:"status,omitempty"`
}

// InstallationStatus is what the operator sees.
type InstallationStatus struct {
	// Version is the operator's.
	//
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// Conditions has Ready: every agent serves. No agent at all is fine where no node
	// is to have one.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Nodes      NodeCounts         `json:"nodes"`
	// Drivers are ours, by name, with what they offer.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Drivers []DriverCounts `json:"drivers,omitempty"`
	// NotServing names nodes whose agent does not serve and says why, as many as
	// there is room for.
	//
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=32
	NotServing []NodeNotServing `json:"notServing,omitempty"`
}

// NodeCounts counts nodes.
type NodeCounts struct {
	// Wanted have an agent's pod, Serving one that is ready: its drivers are
	// registered with the kubelet.
	Wanted  int `json:"wanted"`
	Serving int `json:"serving"`
	// Reported have a HostReport; of HostsWrong it says that something does not work.
	Reported   int `json:"reported"`
	HostsWrong int `json:"hostsWrong"`
}

// DriverCounts is what a driver offers.
type DriverCounts struct {
	// Name is the driver's, such as dra.net.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Nodes have ResourceSlices of it, with so many devices; Tainted are those that
	// have a taint.
	Nodes   int `json:"nodes"`
	Devices int `json:"devices"`
	Tainted int `json:"tainted"`
}

// NodeNotServing is a node whose agent does not serve.
type NodeNotServing struct {
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// +kubebuilder:validation:MaxLength=1024
	Why string `json:"why"`
}

// InstallationList is a list of them.
//
// +kubebuilder:object:root=true
type InstallationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Installation `json:"items"`
}
