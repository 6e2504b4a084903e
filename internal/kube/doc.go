// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package kube is what the agent and the operator share of the API server: the
// connection, and events. For the agent it also has its own node, and the node's pods
// with the claims that they and their containers name, which the kubelet does not tell
// a driver; both are kept on disk and answer while the API server is away.
//
// What else is written is in agent/publish (slices) and agent/status (claims); what
// follows from an answer is decided elsewhere.
package kube
