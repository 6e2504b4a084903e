// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"time"
)

// FaultKind is what is wrong with a device, spelled as the reason of a condition.
type FaultKind string

// The faults a NIC can have.
const (
	// FaultCarrier: the link is set up and has no carrier.
	FaultCarrier FaultKind = "CarrierLost"
	// FaultSpeed: the link runs slower than it did.
	FaultSpeed FaultKind = "LinkSpeedDegraded"
	// FaultPCIe: fewer lanes or a lower rate than device and slot are made for.
	FaultPCIe FaultKind = "PCIeDegraded"
	// FaultGone: the machine does not have the device any more.
	FaultGone FaultKind = "DeviceGone"
	// FaultRDMAPort: the RDMA port carries nothing, although nobody set it down.
	FaultRDMAPort FaultKind = "RDMAPortDown"
	// FaultRDMAFiles: programs cannot open the RDMA device.
	FaultRDMAFiles FaultKind = "RDMAFilesMissing"
)

// Fault is one thing that is wrong with a device. Moves into pods, and what an
// administrator set, are no faults.
type Fault struct {
	Kind FaultKind
	// Message is one clause with the values, such as "runs at 100000 Mbit/s,
	// usually at 400000".
	Message string
	// Since is when it was first seen, in whole seconds; zero where nobody watched.
	Since time.Time
}

// CompareFaults orders the faults of one device.
func CompareFaults(a, b Fault) int { return cmp.Compare(a.Kind, b.Kind) }
