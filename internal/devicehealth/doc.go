// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package devicehealth says which NICs are faulty: carrier lost, link slower than
// it was, fewer PCIe lanes than device and slot have, device gone. It looks at
// every scan of the host, and listens in each network namespace that holds a NIC.
//
//	inventory scan ───────────┐
//	one socket per namespace ─┴─► tracker (a fault lasts, or is none) ─► Faults
//
// What the driver itself does to a NIC and what an administrator set down is no
// fault. Nothing here publishes, and nothing here changes the host.
package devicehealth
