// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package publish keeps the newest scan of the machine, held NICs merged into it,
// and writes it to the API server as ResourceSlices when it changes.
//
// What a scan shows is the inventory's; how a device is written is
// slicecodec's.
package publish
