// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hoststate is a network interface as the host has it: read before a
// pod takes it, restored and verified when it comes back.
//
//	dumps.go    the kernel's dumps of links, addresses and routes
//	read.go     a NIC of the dumps to a State
//	refuse.go   why a NIC is not taken
//	restore.go  a State to the link; restore_routes.go to its addresses and
//	            routes, restore_neighbours.go to its neighbours and link layer
//	            addresses, restore_device.go to ethtool and eBPF programs
//	verify.go   what is not as it was, by the list of fates.go
//
// What a pod gets instead is podstate's business, and when to do either the
// driver's.
package hoststate
