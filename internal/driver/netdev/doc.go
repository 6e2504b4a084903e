// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package netdev is the driver of NICs, dra.net: it moves a network interface
// from the host into a pod's network namespace, and back as it was.
//
//	plan.go   allocated claim and host state to a complete record, or a refusal
//	apply.go  record to pod
//	undo.go   record to host as it was
//
// The record holds the host's state from before the move; undoing needs
// nothing else. A NIC is known by PCI address and permanent MAC, never by name
// or index, which change when it moves.
//
// How to speak rtnetlink is host/rtnl's business, which NICs may be offered is
// inventory's, and when to attach is the agent's.
package netdev
