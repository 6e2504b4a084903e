// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package runtimestate is what the container runtime runs: the pod sandboxes and
// containers that it listed when NRI connected (Synchronize), kept current by its
// hooks.
//
// It reads the runtime's messages and remembers them. What a pod or container is
// given, and the journal that says so, have no place here.
package runtimestate
