// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster is what the scheduler knows when it allocates devices: nodes,
// the pools of their devices, classes, and who holds what. It takes API objects
// from wherever they come and decides nothing; odd objects are described as they
// are, never refused.
package cluster
