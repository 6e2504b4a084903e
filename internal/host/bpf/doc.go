// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package bpf finds the eBPF programs that handle a link's packets by tc and
// tcx, takes them off, and puts them back.
//
// A move to another network namespace ends tc filters; tcx programs and XDP stay
// with the link. What was taken off would end with its last owner, so a Store
// holds the programs until they are back.
package bpf
