// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package runtimehooks answers the container runtime's NRI hooks: it puts devices
// into pods, takes them back, places containers, and after every connection
// repairs what happened while the agent was away.
//
//	the link to the runtime   nri_link.go, runtime.go
//	its hooks                 hooks.go, container_hooks.go, adjust_container.go, container_edits.go
//	devices of pods           attach_detach.go, handover.go, namespaces.go, repair.go
//
// A hook decides from the journal's records alone and adds only what is missing,
// because two agents overlap during an upgrade. Each has less than the runtime's
// two seconds, so what is slow happens in claims. What the runtime runs is
// remembered in runtimestate, what of the journal is a pod's decided in podclaims, and
// containers are kept on their CPUs by pinning.
package runtimehooks
