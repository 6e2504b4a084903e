// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package expect is what the API server says a pod should have: its claims'
// devices, by what can be found in the kernel (PCI address, interface, NUMA
// node), and the constraints they were chosen under.
//
// It reads slices and claim statuses of any driver: ours, DRANET,
// dra-driver-cpu, NVIDIA's. What it cannot make sense of it says; nothing here
// reads the kernel or evaluates.
package expect
