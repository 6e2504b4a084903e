// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nccltopo reads and writes the file by which NCCL is told a machine's topology
// (NCCL_TOPO_FILE): CPUs as NUMA nodes, below them the PCI switches, GPUs and NICs.
//
// Clouds ship such a file where the guest's PCIe tree does not say which NIC is near
// which GPU, so that it is also a source of pairs: see Topology.Pairs. FromMachine makes
// the file of a claim's devices.
//
// It works on bytes and on the model. Reading the file off a node, and giving it to
// containers, is the agent's.
package nccltopo
