// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nodepods knows what the kubelet does not tell a driver about the pods
// of this node, from one watch of the API server: which claims a pod uses, and
// which of its containers name them.
//
// It answers questions; what follows from the answers is decided elsewhere.
package nodepods
