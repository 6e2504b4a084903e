// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package plan says what a measurement makes in a cluster and what it compares: two arms,
// which differ in one declared variable. Nothing here talks to a cluster.
//
//	plan.go       a plan, its arms, and the keeper that all its objects belong to
//	tool.go       what a run executes, and what its output comes to
//	tcp.go        the plan of tcp: two pods, which hold the NICs of both arms
//	undeclared.go whether what was allocated differs in the declared variable alone
//
// Both arms run in the same pods wherever that can be: what is the same object differs in
// nothing.
package plan
