// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package registration offers drivers to the kubelet: it hands the kubelet's calls
// on, tells it of devices' health, and sees to it that one server of a driver is on
// the node, while agents of this system may take over from each other.
//
// What becomes of a claim is decided in claims, which devices there are in publish.
package registration
