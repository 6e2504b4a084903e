// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package model is what plumbline knows about one machine: NUMA nodes, CPUs,
// the PCIe tree, NICs and GPUs. A Machine is built once by New, and immutable.
//
// Absent is not zero: what the kernel does not say (numa_node -1, an empty
// file, a missing link) is a nil pointer here, never -1 and never "", because
// two unknowns must not look equal to a scheduler.
//
// It has the facts, and look-ups in them. Reading them belongs to host/sysfs and
// inventory, publishing them to model/slicecodec, drawing them to topoview.
package model
