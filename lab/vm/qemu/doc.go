// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package qemu writes QEMU command lines for virtual NUMA machines, finds out
// which accelerator works, and talks to a running QEMU. What the guest runs is
// none of its business.
package qemu
