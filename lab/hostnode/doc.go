// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hostnode runs a node on this host's own processors, for what must be
// measured at native speed. The node has every namespace to itself (mounts,
// network, processes, IPC, host name, control groups), a file system of its own
// in the cluster's folder, and virtual links for NICs: the host's own links,
// mounts and processes are out of its reach, and all of it ends with its first
// process. It needs root. What runs there is package node's business.
package hostnode
