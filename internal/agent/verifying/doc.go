// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package verifying checks at an interval whether the pods of the agent's node are
// as their claims say, and reports: metrics, events when a verdict changes, the conditions AsClaimed and Aligned of claims, and the whole
// report on the agent's own socket.
//
//	expectations.go what the API server says of pods, claims and slices
//	verdicts.go which verdicts are new, and who gets them
//	verifier.go the loop
//	handler.go  the report, on request
//
// What is true of a pod is decided in package verify. Nothing here changes the
// host.
package verifying
