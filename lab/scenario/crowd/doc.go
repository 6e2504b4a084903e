// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package crowd runs a hundred real pods with a NIC each on a node of this host
// and reads from the kernel what it costs the agent to verify them.
package crowd
