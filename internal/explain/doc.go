// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package explain says why claims are not allocated: for each node the first
// request or constraint that cannot be met, the smallest set of them that
// conflicts, and what would help. Whatever it proposes has been tried.
//
// The parts: package cluster is what the scheduler knows, compile says which
// device fits which request, solver what fits together, conflict finds what does
// not, reason says why, fixes what to do. Here they are put together into a
// report. Nothing here reads a cluster or a file.
package explain
