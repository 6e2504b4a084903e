// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package driver is the contract between the agent and the three device
// drivers: what an allocated claim looks like, what a driver answers, and what
// the journal keeps of it.
//
//	allocated claim ─► Plan ─► Record ─► journal ─► Attach, Exclusive ─► pod
//	                             └────────────────► Detach ─► host as it was
//
// Plan is pure: it reads a claim, the machine and the records of other claims,
// and returns a complete Record or a refusal. Everything that changes the
// host works from a Record alone, and is idempotent.
//
// No driver lives here, and nothing here touches the host or the cluster.
package driver
