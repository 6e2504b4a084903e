// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package pciconfig reads and changes the configuration space of PCI functions, the file
// config of each in sysfs, and reads their vital product data, the file vpd. What a value should be is others' business.
package pciconfig
