// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hostpolicy brings the links of a host to what policies want, and back to what
// they were.
//
// NewPlan says what would change without touching anything. Reconciler.Run carries a
// plan out: each value as it was is in a record on disk before the first write, and
// undoing needs the record alone. Which policies a node has is others' business.
//
//	policy.go     what policies want of links
//	host.go       and of the host itself
//	plan.go       what would change, and what becomes of each wish
//	virtual.go    virtual functions: what may be wanted of which, and what waits for them
//	gate.go       keeping claims from functions whose number of virtual ones changes
//	reconcile.go  carrying a plan out, and the record
//	kernel.go     reading and writing
package hostpolicy
