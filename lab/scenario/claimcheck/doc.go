// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package claimcheck compares an allocated claim with what a probe read of the pod
// that holds it, and prints how they agree. It is all pure functions: probing, and
// asking the cluster, belong to package scenario.
package claimcheck
