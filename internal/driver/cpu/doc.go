// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cpu is the driver dra.cpu: exclusive CPUs of one NUMA node, chosen
// here, pinned by the agent through the container runtime.
//
//	claim ─► Plan ─► place ─► Record ─► Exclusive ─► cpuset and mems of a container
//	                             └────► Shared ────► cpuset of every other one
//
// Everything here is a pure function of the machine and the records. A core is
// identified by package, die, cluster and core together: core_id alone repeats
// in every package. Nothing here writes a cgroup or talks to a runtime.
package cpu
