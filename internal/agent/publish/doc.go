// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package publish keeps the newest picture of the machine, held NICs included,
// and writes it to the API server as ResourceSlices when it changes.
//
// What the picture shows is the inventory's; how a device is written is
// slicecodec's.
package publish
