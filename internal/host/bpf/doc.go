// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package bpf lists the eBPF programs that handle a link's packets by tc and
// tcx, detaches them, and attaches them again.
//
// A move to another network namespace deletes tc filters; tcx programs and XDP stay
// with the link. The kernel frees a detached program with its last reference, so a
// Store pins the programs until they are attached again.
package bpf
