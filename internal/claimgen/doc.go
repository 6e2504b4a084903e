// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package claimgen writes claims for aligned devices: which requests, in which
// order, and which constraints hold them together. It is pure; whether a claim
// fits anywhere is package allocation's to say.
//
// What it has learnt of the scheduler's allocator: requests of a pair stand
// beside each other, because constraints are tested as devices are placed;
// selectors ask whether an attribute is there before they read it; a request
// for CPUs says how many, because one that does not takes them all.
package claimgen
