// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hostpolicy brings the links of a host to what policies want, and back to what
// they were.
//
// NewPlan says what would change without touching anything. Reconciler.Run carries a
// plan out: each value as it was is in a record on disk before the first write, and
// undoing needs the record alone. Which policies a node has is others' business.
package hostpolicy
