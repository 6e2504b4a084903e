// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel takes the kernel proper out of a distribution's boot image.
// Emulated, a kernel needs longer to unpack itself than to boot: QEMU starts an
// unpacked one directly (PVH, Documentation/virt/ in the kernel's sources and
// xen's pvh specification). It knows nothing of what the kernel runs.
package kernel
