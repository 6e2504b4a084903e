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
	// Seconds are how long a run measures, or Iterations how many messages of so many Bytes.
	Seconds, Iterations, Bytes int
	// Limit is how long a run may take.
	Limit time.Duration
	// Needs are the programs that the image must have, asked for by its shell; none where pods
	// that run show it.
	Needs []string
	// Version prints the tool's version, where its output does not say it.
	Version []string
	// Carrier is what the kernel counts the load of.
	Carrier Carrier
	// Setup is done once, when the pods are ready.
	Setup []Step
	// Serve is what the server's pod executes for a run, which ends with it, and Port where it
	// listens then, 0 where the client waits for it; nil where the pod's own command serves.
	Serve func(Ends) []string
	Port  int
	// Measure is what the client's pod executes for a run.
	Measure func(Ends) []string
	// Read reads what that printed.
	Read func(out io.Reader) (Reading, error)
}

// Carrier is what an arm's load goes by.
type Carrier int

// Carriers: interfaces, of which bytes are counted, RDMA devices, of which packets are, and
// what no counter shows.
const (
	Interfaces Carrier = iota
	RDMADevices
	Uncounted
)

// Step is a command that is executed in a side's pod, and is told what the one before said.
type Step struct {
	Role    string
	Command func(said string) []string
}

// Ends are where an arm's run takes place.
type Ends struct{ Server, Client End }

// End is an arm's place on one side.
type End struct {
	Address   netip.Addr
	Interface string
	// RDMA is the RDMA device in the pod, and GID the index of the GID that is Address.
	RDMA string
	GID  int
	// CPUs is the list to which the tool is bound; empty for all of the container's.
	CPUs string
}

// Reading is what one run says.
type Reading struct {
	Value float64
	// Version is the tool's.
	Version string
	// Says is what else there is to say of the value.
	Says string
	// Retransmits is nil where nobody counted.
	Retransmits *int64
	Load        Load
}

// Load is what a run must have sent and received by the arm's NIC.
type Load struct {
	// Unit is Bytes or Packets.
	Unit Unit
	// Said is how much of it the tool says.
	Said float64
	// Fewest and Most are parts of that between which the kernel's count lies: headers and
	// what was sent again are more, and a part of the last moment is less.
	Fewest, Most float64
}

// Unit is what the kernel counts.
type Unit string

// Units.
const (
	Bytes   Unit = "bytes"
	Packets Unit = "packets"
)
