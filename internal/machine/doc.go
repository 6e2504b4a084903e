// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package machine is the front door to machine files, the two text forms in
// which a machine travels: a facts file (YAML, written by people, every value
// sourced; package facts) and a recording (written by plumbline machine record;
// package recording). Both become a tree (package systree) that host/sysfs
// reads like the kernel's own; facts become one by package render.
//
// Here lives only what joins the four. Reading a tree into a model belongs to
// inventory, publishing it to model/slicecodec.
package machine
