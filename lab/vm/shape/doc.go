// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package shape says what a virtual machine should look like: sockets, NUMA
// nodes, PCIe roots and the devices on them. It is what the lab needs of a
// machine file and no more. How QEMU builds it belongs elsewhere.
package shape
