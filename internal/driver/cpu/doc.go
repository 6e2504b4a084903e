// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cpu is the driver dra.cpu: exclusive CPUs of one NUMA node, chosen
// here, pinned by the agent through the container runtime.
//
//	claim ─► Plan ─► placement ─► Record ─► Exclusive ─► cpuset and mems of a container
//	                                 └────► Shared ────► cpuset of every other one
//
// Everything here is a pure function of the machine and the records:
//
//	plan.go              which CPUs and huge pages a claim gets, by placement
//	container_cpusets.go which cpuset and memory nodes a container gets of its
//	                     claims (Exclusive), or without any (Shared)
//
// The agent writes those through the container runtime and the cgroup file
// system; nothing here does.
package cpu
