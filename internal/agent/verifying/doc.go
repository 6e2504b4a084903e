// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package verifying has the agent look, again and again, whether the pods of its
// node are as their claims say, and tells who asks: metrics, events when a
// verdict changes, the conditions AsClaimed and Aligned of claims, and the whole
// report on the agent's own socket.
//
//	expectations.go what the API server says of pods, claims and slices
//	verdicts.go which verdicts are new, and who is told
//	verifier.go the loop
//	answer.go   the report for who asks now
//
// What is true of a pod is decided in package verify. Nothing here changes the
// host.
package verifying
