// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package systree holds a sysfs tree in memory: directories, attributes and
// symbolic links. It is an fs.FS, so host/sysfs reads it like /sys, and it can
// be written to disk.
//
// What is in a tree is decided by render and recording.
package systree
