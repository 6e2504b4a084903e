// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hoststate is a network interface as the host has it: read before a
// pod takes it, restored and verified when it comes back.
//
//	read.go                a NIC of the kernel's dumps of links, addresses and
//	                       routes to a State
//	refuse.go              why a NIC is not taken
//	restore.go             a State to the link: settings, ethtool, eBPF programs
//	restore_routes.go      to its addresses, routes and queueing disciplines
//	restore_neighbours.go  to its neighbours and link layer addresses
//	restore_outcomes.go    the table of what is restored, and what is not
//	verify.go              what differs from the State after restoring
//
// What a pod gets instead is podstate's business, and when to do either the
// driver's.
package hoststate
