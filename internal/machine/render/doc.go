// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package render makes from facts the tree that Linux would show below /sys.
//
// Here live the kernel's forms and the rules that fill in what facts leave
// open: bridges, numbering, names. Facts are never changed.
package render
