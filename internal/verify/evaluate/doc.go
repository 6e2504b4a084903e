// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package evaluate compares what was expected of a pod with what was observed of
// it. It is a pure function: expectations, observations and machine in, verdict out.
//
//	evaluate.go    the evaluator of one pod
//	verdict.go     findings, their codes, and the verdict they make
//	devices.go     every claimed device is there, and no other
//	rdma.go        RDMA devices: their files, GIDs and the right to lock memory
//	vf.go          what physical functions say of virtual ones
//	cpus.go        CPUs, memory nodes, processes and threads
//	constraints.go the claim's constraints, by the kernel's values
//	plugins.go     GPUs that device plugins gave, which no claim has
//	components.go  what is in the pod, and how near everything is to everything
//	nearness.go    whether the machine could have given it nearer
//
// A pod is as claimed when everything its claims say holds, and nothing is
// unknown: what could not be read is never taken for good. Whether it is aligned is
// another question, and answered apart from that: a claim may say nothing of
// distances, or ask for long ones.
package evaluate
