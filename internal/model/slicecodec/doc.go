// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package slicecodec turns a model.Machine into the devices of ResourceSlices
// and back. It is the only owner of device names and attribute names.
//
// Devices of other drivers are decoded too (other_drivers.go): what a device is and
// where, by the standard attributes and by those that a driver has instead.
//
// Encoding is a pure function of the machine: same machine, same bytes, devices
// in the machine's root-major order. Every string is bounded and every device
// keeps within the API's limits, because one bad device makes the API server
// refuse a whole slice. An unknown value is left out, never published as "" or
// -1: two unknowns would match each other.
//
// Nothing here reads the host or talks to a cluster.
package slicecodec
