// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package egx runs the pods of NVIDIA's article on the Network Operator: the manifests of
// examples/network-operator-egx, and what the article has a reader type between creating
// the pods and deleting them. What a node cannot show, as one on this host no RDMA and no
// GPU, is left out.
package egx
