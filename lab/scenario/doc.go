// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package scenario runs the mission's manifests on the lab's cluster and checks
// the outcome.
//
// Each pod is probed twice: from inside, and on the node through /proc. Neither
// probe asks plumbline; both read the kernel's own files. What they read is compared
// with the claim by pure functions, in package claimcheck.
//
// Starting and stopping the cluster belongs to the command; this package only
// uses one that runs.
package scenario
