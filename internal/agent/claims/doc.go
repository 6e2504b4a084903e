// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package claims prepares and unprepares claims when the kubelet asks: it has
// the driver plan, journals the plan, and writes the CDI file. Claims that are gone
// it unprepares by itself.
//
// What a device needs is decided in driver/*; what happens when the container
// runtime calls is in runtimehooks.
package claims
