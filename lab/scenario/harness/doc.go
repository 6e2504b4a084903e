// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package harness is what the lab's scenarios share: the frame of a run with its
// findings and verdict, manifests of pods and claims, waiting for the cluster, and the
// shell functions that their scripts use on a node. What one scenario alone needs stays
// with that scenario.
package harness
