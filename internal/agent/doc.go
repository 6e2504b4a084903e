// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is what runs on every node: it publishes the machine, prepares
// claims when the kubelet asks, and puts devices into pods when the container
// runtime asks.
//
//	kubelet ──Prepare──► plan ─► journal ─► CDI file
//	runtime ──NRI──────► records of the pod ─► attach, pin ─► claim status
//
// Here live the wiring and the one start order (Run). What a device needs is
// decided in driver/*, what is remembered in journal; an NRI hook decides from
// those records alone and adds only what is missing, because two agents overlap
// during an upgrade.
package agent
