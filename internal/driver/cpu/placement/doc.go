// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package placement chooses CPUs: given the machine's cores, what is free, how
// many are wanted and by which policy, it returns the CPUs, or a reason.
//
//	topology.go   a machine to its cores and caches, once
//	pick_cpus.go  the policy, which cores come first (kind of core, then
//	              nearness), whole cores of few caches, then single threads
//
// It is pure: the same input gives the same answer, and nothing here knows
// claims, records or the kernel. A core is known by package, die, cluster and
// core together, since core_id alone repeats in every package
// (Documentation/admin-guide/cputopology.rst).
package placement
