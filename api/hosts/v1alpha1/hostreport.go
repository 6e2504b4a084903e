// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// What the operator writes to nodes, beside conditions of this group and labels of Node
// Feature Discovery.
const (
	// LabelHostSetup is on nodes that have something to do for plumbline-host-setup.
	LabelHostSetup = "plumbline.dev/host-setup"
	// AnnotationFeatureLabels names the labels that the operator set, separated by commas.
	AnnotationFeatureLabels = "plumbline.dev/feature-labels"
)

// HostReport is what the agent of a node found on its host. It has the node's name, is
// owned by the Node, and is written when something changed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=hr
// +kubebuilder:printcolumn:name=Wrong,type=integer,JSONPath=`.report.wrong`
// +kubebuilder:printcolumn:name=Unknown,type=integer,JSONPath=`.report.unknown`
// +kubebuilder:printcolumn:name=OK,type=integer,JSONPath=`.report.ok`
// +kubebuilder:printcolumn:name=Kernel,type=string,JSONPath=`.report.profile.kernel`
// +kubebuilder:printcolumn:name=Changed,type=date,JSONPath=`.report.changed`
type HostReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Report Report `json:"report"`
}

// Report is the content of a HostReport.
type Report struct {
	// Changed is when the rest last changed.
	Changed metav1.Time `json:"changed"`
	// OK, Wrong and Unknown count the findings.
	//
	// +kubebuilder:validation:Minimum=0
	OK int `json:"ok"`
	// +kubebuilder:validation:Minimum=0
	Wrong int `json:"wrong"`
	// +kubebuilder:validation:Minimum=0
	Unknown int `json:"unknown"`
	// Checks names those that had something to say, in doctor's order: one about RDMA
	// says nothing where there is none.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Checks []string `json:"checks,omitempty"`
	// Findings are those that are wrong or unknown, in doctor's order, as many as
	// there is room for.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Findings []Finding `json:"findings,omitempty"`
	// Policies are the HostPolicies of the node, and what became of them, in the order of
	// their names.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Policies []PolicyResult `json:"policies,omitempty"`
	// SetupWanted says that a policy wants, or wanted, of the host what only
	// plumbline-host-setup may do: the node gets the label that this runs on.
	SetupWanted bool `json:"setupWanted,omitempty"`
	// Profile is what hosts that should be alike are compared by.
	Profile HostProfile `json:"profile"`
}

// HostProfile is what a host has and how it is set, without what is another on every
// host, such as names and addresses: two nodes of one kind have one profile. doctor
// writes one (--learn) and compares with it.
type HostProfile struct {
	// Kernel is the release, as uname -r prints it.
	//
	// +kubebuilder:validation:MaxLength=256
	Kernel string `json:"kernel,omitempty"`
	// Settings are those of the host: names and values as doctor prints them.
	//
	// +kubebuilder:validation:MaxProperties=128
	Settings map[string]string `json:"settings,omitempty"`
	// Devices are GPUs and NICs, those that are alike together.
	//
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	Devices []DeviceProfile `json:"devices,omitempty"`
}

// DeviceProfile is so many devices of one model with the same settings.
type DeviceProfile struct {
	// Kind is gpu or nic.
	//
	// +kubebuilder:validation:Enum=gpu;nic
	Kind string `json:"kind"`
	// ID is the PCI vendor and device, as "15b3:1021".
	//
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{4}:[0-9a-f]{4}$`
	ID string `json:"id"`
	// Model is its name in the PCI database, where it has one.
	//
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// +kubebuilder:validation:Minimum=1
	Count int `json:"count"`
	// Settings are such as firmware, link speed and width, MTU, size of reads.
	//
	// +kubebuilder:validation:MaxProperties=32
	Settings map[string]string `json:"settings,omitempty"`
}

// HostReportList is a list of them.
//
// +kubebuilder:object:root=true
type HostReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []HostReport `json:"items"`
}
