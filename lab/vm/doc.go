// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package vm runs a node in a virtual machine that has the PCIe and NUMA shape
// of a real one. Its caller says where QEMU, kernel and programs lie and what the
// node shall run; it fetches and builds nothing but the guest's initramfs, and
// writes only into the machine's own folder. See Config and Start.
package vm
