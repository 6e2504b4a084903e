// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package kmsg reads the kernel's log, record by record, as /dev/kmsg has it
// (Documentation/ABI/testing/dev-kmsg). What a message means lives where it is looked for.
//
//	device.go   the device, without waiting for what is not logged yet
//	records.go  its text
package kmsg
