// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cdi turns records into CDI spec files, by which the container runtime
// gives a claim's devices to the containers that name it.
//
// One file per claim and driver, named and keyed by the claim's UID, so that a
// runtime that caches never mistakes one claim for another. The file says what
// the record says; deciding belongs to the drivers, everything a file cannot
// express to the agent.
package cdi
