// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

// Verdict is what a check says of one thing.
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
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Verdict  Verdict  `json:"verdict"`
	// Subject is what it is about, such as "0000:91:00.0 eth2 mlx5_0"; empty for
	// the host.
	Subject string `json:"subject,omitempty"`
	// Found is what is so, or why nobody can tell.
	Found string `json:"found"`
	// Source is the file that says so.
	Source string `json:"source"`
	// Want is what would be right, and Fix how to get there, with ADDRESS or INTERFACE
	// for those of the subject; empty where the verdict is OK.
	Want string `json:"want,omitempty"`
	Fix  string `json:"fix,omitempty"`
}

// Count counts findings by verdict.
func Count(findings []Finding) map[Verdict]int {
	n := map[Verdict]int{}
	for _, f := range findings {
		n[f.Verdict]++
	}
	return n
}
