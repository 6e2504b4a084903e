// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"io"
	"net/netip"
	"time"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// Tool is what the runs of a plan execute, and what their output comes to. Who executes it,
// and where, it does not know.
type Tool struct {
	// Figure is what each run measures, without its value.
	Figure tools.Figure
	// Seconds are how long a run measures.
	Seconds int
	// Measure is what the client's pod executes for a run.
	Measure func(Ends) []string
	// Read reads what that printed.
	Read func(out io.Reader) (Reading, error)
}

// Ends are where an arm's run takes place.
type Ends struct{ Server, Client End }

// End is an arm's place on one side.
type End struct {
	Address netip.Addr
}

// Reading is what one run says.
type Reading struct {
	Value float64
	// Version is the tool's.
	Version string
	// Retransmits is nil where nobody counted.
	Retransmits *int64
	Load        Load
}

// Load is what a run must have sent and received by the arm's NIC.
type Load struct {
	// Said is how much of it the tool says.
	Said float64
	// Fewest and Most are parts of that between which the kernel's count lies: headers and
	// what was sent again are more, and a part of the last moment is less.
	Fewest, Most float64
}

// Limit is how long a run may take that measures as long as it should.
func (t *Tool) Limit() time.Duration { return time.Duration(t.Seconds) * time.Second }
