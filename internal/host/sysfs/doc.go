// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package sysfs reads what the kernel says about a machine below /sys, one
// file of this package for each kernel directory. The root is an fs.FS, so a
// rendered tree of another machine reads like the host's own.
//
// A reader returns facts and problems: what cannot be read or contradicts itself is
// left out and named by one Problem, and the rest is read all the same. An unknown
// value is nil, never zero.
//
// Nothing here writes, joins facts of different directories, or decides what
// is offered to a pod; that is inventory's.
package sysfs
