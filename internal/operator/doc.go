// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package operator is what runs once in a cluster, as plumbline-operator: the
// controllers in its subpackages, of which one replica at a time is the leader.
//
//	explainer     events for pods whose claims cannot be allocated
//	nodestatus    conditions and labels of nodes, from HostReports
//	installation  what serves where, summed up in one object
//	addresspools  a block of every pool of addresses for each node
//	uninstall     what is done in the cluster before and after an uninstallation
//
// Here live the options, the connection and the start. Nothing here knows any node's
// kernel, and nothing of the agent is imported: they meet in api and in the API server.
package operator
