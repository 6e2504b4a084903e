// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cpu is the driver dra.cpu: exclusive CPUs of one NUMA node, chosen
// here, pinned by the agent through the container runtime.
//
//	claim ─► Plan ─► placement ─► Record ─► Exclusive ─► cpuset and mems of a container
//	                                 └────► Shared ────► cpuset of every other one
//
// Everything here is a pure function of the machine and the records. Which CPUs
// a claim gets is placement's choice. Nothing here writes a cgroup or talks to
// a runtime.
package cpu
