// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package addresspool is the arithmetic of pools of addresses: how a subnet is cut into
// blocks, and which address of a block a claim gets. It is pure: who asks knows which
// addresses are in use. What pools and blocks are in the cluster lives in api/net, who carves
// blocks in internal/operator/addresspools, and who gives addresses out in
// internal/driver/netdev.
package addresspool
