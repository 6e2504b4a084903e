// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package pinning keeps every container of the node where it belongs: those that
// hold CPUs on theirs, all others on the CPUs that claims leave, the pool.
//
//	records ─► conflicts ─┐
//	records ─► pool ──────┼─► Wanted ─► Placer ─► control groups
//	runtime ─► Container ─┘               └────► what was written, drifted, failed
//
// The container runtime writes a container's first set. Later ones are written
// here, into the container's own control group: an update through the runtime
// takes 7 ms each under its one lock, and a node has 1,500 containers. It is called
// only for groups that cannot be written.
//
//	which containers belong where   assign.go, container.go, conflicts.go
//	passes over containers          reconciler.go, reconcile_container.go, placer.go
//	what claims and pods show of it quarantine.go, mirrored_requests.go
//
// Which containers there are is runtimestate's business, which claims they hold
// podclaims', which CPUs a claim has the driver's.
package pinning
