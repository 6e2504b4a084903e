// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package overview sums up the machines of a cluster: a line for each node, the
// room that all of them have, and who holds what. It takes what topoview made of
// each machine; finding the nodes is the caller's.
package overview
