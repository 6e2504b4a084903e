// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package render makes from facts the tree that Linux would show below /sys.
//
// It has the kernel's file formats, and the rules that fill in what facts lack:
// bridges, numbering, names. Facts are never changed.
package render
