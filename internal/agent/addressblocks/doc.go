// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package addressblocks knows which blocks of pools of addresses a node has: it follows the
// cluster's NetworkAddressPools and the node's NetworkAddressBlocks, keeps them on disk so
// that addresses are given out while the API server is away, and gives back blocks that are
// deleted once no claim has an address of them. Which addresses are in use the records of
// claims alone say: nothing is counted here.
package addressblocks
