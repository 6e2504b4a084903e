// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package run carries a plan out in a cluster: it makes the objects, waits for the pods, has
// the tool run by turns, and takes everything away again.
//
//	run.go      the order of all that, and how it fails
//	keeper.go   objects are made, kept, and taken away
//	pods.go     pods that start, and that are there still
//	network.go  what was allocated, and where each arm reaches the other side
//	turns.go    the runs of the tool, by turns
//	execute.go  one run: the server's side and the client's
//	counters.go bytes by interface, as the kernel of a pod counts them
//	rdma.go     the RDMA devices of the arms, and their packets
//
// What was made belongs to the plan's keeper. The command puts the keeper's deadline off for as
// long as it lives; without it Kubernetes ends the keeper, and collects what belongs to it.
package run
