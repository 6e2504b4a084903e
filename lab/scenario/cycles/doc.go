// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cycles puts pods with a NIC through their lives, a random fault each,
// and counts what was lost. What it believes it has read from the node itself:
// the kernel's /proc and /sys, and the files on disk; never plumbline's own
// account. A seed names a run, and the same seed plans the same one.
package cycles
