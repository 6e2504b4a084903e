// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package expect is what the API server says a pod should have: its claims'
// devices, by what the kernel can be asked for (PCI address, interface, NUMA
// node), and the constraints they were chosen under.
//
// It reads slices and claim statuses of any driver: ours, DRANET,
// dra-driver-cpu, NVIDIA's. What it cannot make sense of it says; nothing here
// asks the kernel or evaluates.
package expect
