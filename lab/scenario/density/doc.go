// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package density runs a hundred pods with a NIC each on one node and measures the
// processor time that the agent's verification of all of them takes.
package density
