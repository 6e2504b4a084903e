// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package machine opens machine files of both kinds: a facts file (YAML, written by
// people, every value sourced; package facts) and a recording (written by plumbline
// machine record; package recording). Both become a tree (package systree) that
// host/sysfs reads like the kernel's own; facts become one by package render.
//
// Reading a tree into a model belongs to inventory, publishing it to
// model/slicecodec.
package machine
