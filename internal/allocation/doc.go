// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package allocation runs the scheduler's own allocator
// (k8s.io/dynamic-resource-allocation/structured) without a scheduler: given
// slices, classes and the claims that hold devices, would these claims be
// allocated on that node, and what would they get?
//
// Nothing here decides by itself, and nothing here reads a cluster or a file.
package allocation
