// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package solver decides whether claims can be allocated on one node, exactly:
// it knows devices as numbers and what fits as tables. What the tables say
// comes from package compile; no API type is known here.
//
// The rules are those of the upstream allocator (package structured of
// k8s.io/dynamic-resource-allocation), whose search tries every order of devices
// until one works. This one remembers in which states nothing works, and takes
// devices that nothing tells apart for one kind, so an answer that costs the
// scheduler seconds costs it microseconds. Where the scheduler's answer depends
// on the order in which it looks, because a device on its way aborts the search,
// the solver looks in the same order.
package solver
