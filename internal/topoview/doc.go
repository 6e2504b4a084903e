// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package topoview draws a machine: Build arranges a model.Machine and the
// claims that hold its devices as a Topology (sockets, NUMA nodes, PCIe roots,
// switches, devices), and Text and package svg write a Topology down; its JSON form
// is its fields. Beside it stand three smaller views: Matrix, how near GPUs and NICs
// are to each other; Pod, what a pod finds in itself; Cluster, the sums of nodes.
//
//	model.Machine ─┐
//	Holders ───────┴─► Build ─► Topology ─► Text | JSON | svg.Topology
//
// Everything here is a pure function of its arguments. Reading a host or a
// cluster belongs to the caller, naming devices to model/slicecodec.
//
// Each device of the machine appears exactly once in each form, whatever is
// unknown about it: what has no NUMA node or no PCIe root stands in a group
// that says so.
package topoview
