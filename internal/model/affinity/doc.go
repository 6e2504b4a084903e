// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package affinity says how near two devices of a machine are, in the classes of
// nvidia-smi topo -m: PIX, PXB, PHB, NODE, SYS. topoview shows them as a matrix, verify
// checks a pod's devices by them.
//
// It depends on the model only, and not on claims.
package affinity
