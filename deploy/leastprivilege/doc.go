// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package leastprivilege tries, on a live cluster, what the agent must not be
// able to do: it takes tokens of the agent's own ServiceAccount, sends every
// request of deploy/forbidden.yaml as a dry run, and says which answers were
// not as listed. It also compares the rights the API server reports for the
// agent with those the chart grants, so that a right given elsewhere shows.
//
// The list is data, so that a reader can judge it without reading Go. Nothing
// here knows how the agent is deployed beyond its ServiceAccount.
package leastprivilege
