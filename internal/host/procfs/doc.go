// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package procfs decodes what the kernel says in text below /proc
// (Documentation/filesystems/proc.rst), and no more: files are opened by
// whoever asks, but for the boot id, which is read of an fs.FS.
// Part of the text is a pod's own (its environment, its process' name), so that
// every decoder bounds what it believes.
package procfs
