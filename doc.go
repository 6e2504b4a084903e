// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package plumbline gives a Kubernetes pod a GPU, a NIC and CPUs that sit on
// the same PCIe root and NUMA node, and proves it. The root package holds no
// code: only the tests that keep the house in order (arch_test.go).
package plumbline
