// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package sriov reads and sets how many virtual functions a PCI function has, and says
// which of them somebody uses, as far as sysfs shows it. Whether a count may be set is
// others' business.
package sriov
