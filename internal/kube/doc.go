// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package kube is what a node's agent reads of its API server: the connection, its own
// node, and the pods of the node with the claims that they and their containers name,
// which the kubelet does not tell a driver. Node and pods are kept on disk and answer
// while the API server is away.
//
// What is written to the API server is in agent/publish (slices) and agent/status
// (claims, events); what follows from an answer is decided elsewhere.
package kube
