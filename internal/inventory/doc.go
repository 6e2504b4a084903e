// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory turns what the host says about itself into a
// model.Machine: sysfs facts, netlink's links and the GPUs joined by PCI
// address, and the decision which NICs must never be offered.
//
//	host/sysfs ─┐
//	Links ──────┼─► Scan ─► model.Machine ─► Merge (NICs in pods) ─► readers
//	GPUs ───────┘
//
// Scan reads the machine once, Watch again when something changed. Nothing here
// changes the host or depends on Kubernetes.
package inventory
