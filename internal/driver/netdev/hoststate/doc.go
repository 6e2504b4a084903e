// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hoststate is a network interface as the host has it: read before a
// pod takes it, restored and verified when it comes back.
//
//	read.go     the kernel's dumps to a State, or a reason not to take the NIC
//	restore.go  a State to the link; entries.go to its addresses and routes,
//	            neighbourhood.go to whom it knows and stands for
//	verify.go   what is not as it was, by the lists of lists.go
//
// What a pod gets instead is podstate's business, and when to do either the
// driver's.
package hoststate
