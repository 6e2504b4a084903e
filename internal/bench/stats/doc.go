// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package stats says whether two cases that were measured by turns differ. It is
// arithmetic: it knows no tool and no cluster, and the same numbers with the same seed
// give the same answer.
//
// Cases run by turns (A B, B A, A B ...), so that what changes while they run (another
// tenant, a clock, heat) is in both. A turn is the unit that is sampled: its two runs share
// what was then, and a tool's own iterations within a run are no samples of anything else.
package stats
