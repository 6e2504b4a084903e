// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package soak puts pods with a NIC through their lives, a random fault each, and
// counts what was lost. Its facts come from the node itself: the kernel's /proc and
// /sys, and the files on disk; never from plumbline's own account. A run is named by
// its seed: the same seed gives the same plan.
package soak
