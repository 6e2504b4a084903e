// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package verify says of running pods whether they are aligned as their claims
// say, by what the kernel says of them and not by what anybody published.
//
//	claims, slices ─► expect ─┐
//	/proc, /sys ────► facts ──┼─► judge ─► Result ─► Report
//	machine ──────────────────┘
//
// Here live the look at all pods of a node together, and the form a report has
// outside the program. Who looks, when, and who is told is the agent's business
// and the command line's.
package verify
