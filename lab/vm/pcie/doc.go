// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package pcie turns a machine's PCIe roots and devices into QEMU devices such
// that firmware numbers the buses as the real machine's does. It computes; it
// starts nothing and knows no other part of QEMU's command line.
//
// Firmware (SeaBIOS, src/fw/pciinit.c) walks each root bus in the order of
// slots and gives every bridge it meets the next free bus number, then goes on
// to the next root bus above the last number given. An expander bridge
// (pxb-pcie) fixes a root's number, so the plan has to place exactly as many
// bridges before each device as its bus number asks for: a switch costs two
// buses of its own (upstream port, internal bus), each port below it one.
package pcie
