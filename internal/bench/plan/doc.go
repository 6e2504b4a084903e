// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package plan says what a measurement makes in a cluster and what it compares: two arms,
// which differ in one declared variable. Nothing here talks to a cluster.
//
//	plan.go       a plan, its arms, and the keeper that all its objects belong to
//	tool.go       what a run executes, and what its output comes to
//	options.go    what a user says of a measurement
//	objects.go    the claims and pods of both sides
//	arms.go       arms that differ in their NIC or in their CPUs
//	tcp.go        throughput by iperf3
//	rdma.go       latency and bandwidth by perftest
//	gpu.go        latency of a GPU by nvbandwidth
//	jobs.go       training, and an all-reduce by nccl-tests
//	undeclared.go whether what was allocated differs in the declared variable alone
//
// Both arms run in the same pods wherever that can be: what is the same object differs in
// nothing.
package plan
