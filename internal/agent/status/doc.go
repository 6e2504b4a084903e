// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package status tells people what became of their devices: the conditions in
// a claim's status.devices. Nobody waits for it; what it is told, it repeats to
// the API server until that has taken it.
//
// What is true of a device is decided elsewhere.
package status
