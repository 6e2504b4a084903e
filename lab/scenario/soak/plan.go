// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Fault is what happens to a cycle's pod or below it.
type Fault string

// The faults.
const (
	// AgentKilled is kill -9.
	AgentKilled Fault = "agent killed"
	// RuntimeRestarted is containerd ended and started again.
	RuntimeRestarted Fault = "containerd restarted"
	// KubeletRestarted is the kubelet ended and started again.
	KubeletRestarted Fault = "kubelet restarted"
	// LinkRemoved takes the PCI function from the kernel and lets it be found
	// again.
	LinkRemoved Fault = "link removed"
	// LinkRenamed gives the NIC another name inside the pod.
	LinkRenamed Fault = "link renamed in the pod"
	// ForceDeleted deletes the pod without waiting for the node.
	ForceDeleted Fault = "pod force-deleted"
	// APIServerAway stops the API server for some seconds.
	APIServerAway Fault = "API server away"
	// SandboxRecreated ends the pod's sandbox while the agent is dead.
	SandboxRecreated Fault = "sandbox recreated, agent dead"
)

// Everywhere are the faults that any node can be put through, PCI those that
// need NICs of their own on a PCI bus: the kernel destroys a stand-in where it
// would return a NIC.
var (
	Everywhere = []Fault{AgentKilled, RuntimeRestarted, KubeletRestarted, LinkRenamed, ForceDeleted, APIServerAway}
	PCI        = []Fault{LinkRemoved, SandboxRecreated}
)

// Phase is when the fault comes.
type Phase string

// The phases.
const (
	Creating Phase = "creating"
	Running  Phase = "running"
	Deleting Phase = "deleting"
)

// Cycle is the life of one pod, with one fault.
type Cycle struct {
	// Number counts from 1.
	Number int
	Fault  Fault
	Phase  Phase
	// Delay is how long after the phase began.
	Delay time.Duration
	// Named says that the pod's container names the claim; else only the pod
	// does.
	Named bool
}

// String is one line of the output.
func (c Cycle) String() string {
	who := "pod names the claim"
	if c.Named {
		who = "container names the claim"
	}
	return fmt.Sprintf("cycle %d: %s, %s + %s, %s", c.Number, c.Fault, c.Phase, c.Delay, who)
}

// maxDelay is how far into a phase a fault comes at most.
const maxDelay = 1500 * time.Millisecond

// phases are when a fault makes sense: a NIC can be renamed in a pod only while
// there is a pod. Stand-ins are lost with a pod that ends while there is no agent:
// there the kernel destroys a link where it returns a NIC.
func phases(f Fault, standIns bool) []Phase {
	switch f {
	case AgentKilled:
		if standIns {
			return []Phase{Creating, Running}
		}
	case LinkRemoved, LinkRenamed, SandboxRecreated:
		return []Phase{Running}
	case ForceDeleted:
		return []Phase{Creating, Running}
	}
	return []Phase{Creating, Running, Deleting}
}

// Plan returns n cycles. Every fault comes about equally often, whatever the
// seed: each is drawn once before any is drawn again. standIns says that NICs are virtual links.
func Plan(seed uint64, n int, faults []Fault, standIns bool) []Cycle {
	random := rand.New(rand.NewPCG(seed, 0))
	var deck []Fault
	plan := make([]Cycle, n)
	for i := range plan {
		if len(deck) == 0 {
			deck = append(deck, faults...)
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		c := Cycle{Number: i + 1, Fault: deck[0], Named: random.IntN(2) == 0}
		deck = deck[1:]
		allowed := phases(c.Fault, standIns)
		c.Phase = allowed[random.IntN(len(allowed))]
		c.Delay = time.Duration(random.Int64N(int64(maxDelay))).Round(10 * time.Millisecond)
		plan[i] = c
	}
	return plan
}
