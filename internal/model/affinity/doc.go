// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package affinity says how near two things of a machine are, in the words of
// nvidia-smi topo -m: PIX, PXB, PHB, NODE, SYS. topoview draws its answers as a
// matrix, verify judges a pod by them.
//
// It asks the model and nothing else. What a claim wanted is not known here.
package affinity
