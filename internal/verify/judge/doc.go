// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package judge compares what a pod was promised with what the kernel says of
// it. It is a pure function: promise, facts and machine in, verdict out.
//
//	judge.go       the whole, and what a verdict is
//	devices.go     every claimed device is there, and no other
//	cpus.go        CPUs, memory nodes, processes and threads
//	constraints.go the claim's constraints, by the kernel's values
//	plugins.go     GPUs that device plugins gave, which no claim has
//	pairs.go       how near everything is to everything
//	nearness.go    whether the machine could have given it nearer
//
// A pod is as claimed when everything its claims say holds, and nothing is
// unknown: what could not be read is never taken for good. Whether it is aligned is
// another question, and answered apart from that: a claim may say nothing of
// distances, or ask for long ones.
package judge
