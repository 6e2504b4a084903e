// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster connects an agent to its API server and reads its own node,
// also from what it kept of it while the API server is away.
//
// What is written to the API server is in publish (slices) and status (claims,
// events); pods are watched in nodepods.
package cluster
