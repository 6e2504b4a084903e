// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package side is one of the two sides of a move: a network namespace with a
// socket in it, and how to find a NIC there.
//
// What to change on a side is not decided here: hoststate knows the host's,
// podstate the pod's.
package side
