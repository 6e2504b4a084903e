// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is what runs on every node: it publishes the machine, prepares
// claims when the kubelet asks, and puts devices into pods when the container
// runtime asks.
//
//	kubelet ──Prepare──► plan ─► journal ─► CDI file
//	runtime ──NRI──────► records of the pod ─► attach, pin ─► claim status
//
//	claims        kubelet: plan, journal, CDI
//	runtimehooks  container runtime: attach, detach, pin, repair
//	runtimestate  container runtime: its sandboxes and containers
//	kube          what the API says of this node and its pods (internal/kube)
//	status        conditions and device status of claims
//	publish       the machine, as ResourceSlices
//
// Here live the options, the wiring and the one start order (Run). What a device
// needs is decided in driver/*, what is remembered in journal.
package agent
