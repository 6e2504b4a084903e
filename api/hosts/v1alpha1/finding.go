// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Verdict is what a check says of one thing.
//
// +kubebuilder:validation:Enum=ok;wrong;unknown
type Verdict string

const (
	// OK is as it should be.
	OK Verdict = "ok"
	// Wrong is not as it should be; Want and Fix say more.
	Wrong Verdict = "wrong"
	// Unknown is what nobody can tell: the file cannot be read.
	Unknown Verdict = "unknown"
)

// Severity is what it costs where something is wrong.
//
// +kubebuilder:validation:Enum=functional;performance;information
type Severity string

const (
	// Functional means that something does not work.
	Functional Severity = "functional"
	// Performance means that it works slower than it could.
	Performance Severity = "performance"
	// Information is worth knowing.
	Information Severity = "information"
)

// Finding is what a check says of a host or of one of its devices.
type Finding struct {
	// Check is the check's name, such as pcie-link.
	//
	// +kubebuilder:validation:MaxLength=63
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Verdict  Verdict  `json:"verdict"`
	// Subject is what it is about, such as "0000:91:00.0 eth2 mlx5_0"; empty for
	// the host.
	//
	// +kubebuilder:validation:MaxLength=256
	Subject string `json:"subject,omitempty"`
	// Found is what is so, or why nobody can tell.
	//
	// +kubebuilder:validation:MaxLength=1024
	Found string `json:"found"`
	// Source is the file that says so.
	//
	// +kubebuilder:validation:MaxLength=1024
	Source string `json:"source"`
	// Want is what would be right, and Fix how to get there, with ADDRESS or INTERFACE
	// for those of the subject; empty where the verdict is OK.
	//
	// +kubebuilder:validation:MaxLength=1024
	Want string `json:"want,omitempty"`
	// +kubebuilder:validation:MaxLength=1024
	Fix string `json:"fix,omitempty"`
}
