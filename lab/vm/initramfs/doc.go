// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package initramfs packs a guest's first and only filesystem: a cpio archive
// that is the same, byte for byte, for the same content, made without root. It
// also finds out which kernel modules others need. What the files are for is
// the caller's business.
package initramfs
