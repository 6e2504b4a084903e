// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package procfs parses text files of /proc (Documentation/filesystems/proc.rst).
// Callers open the files, but for the boot id, which is read from an fs.FS.
// Part of the text is a pod's own (its environment, its processes' names), so that
// every parser bounds its input.
package procfs
