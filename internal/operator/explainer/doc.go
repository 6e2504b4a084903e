// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package explainer tells pods why they wait: a pod whose ResourceClaims cannot
// be allocated gets an event that says what is in the way and what would help.
// It is a controller of plumbline-operator: a pod that waits belongs to no node.
//
//	objects.go        what is watched of the cluster
//	trim.go           what is kept of it
//	pack.go           and how, of thousands of nodes' devices
//	waiting.go        which pods wait for their claims
//	retry_schedule.go when each is evaluated, and when it gets an event
//	explainer.go      the loop
//	pass.go           the answers of one pass over the pods that are due
//	event_message.go  the event's text
//	confirm.go        what is asked once more before an event is sent
//	run.go            what it is told, and its start
//
// What is true of claims is decided in package explain. Nothing here writes
// anything but events.
package explainer
