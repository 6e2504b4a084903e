// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package measure runs plumbline bench on a node on this host, as a user would: a claimed
// NIC against the pods' own network, two NICs against each other, an image without the tool,
// and a command that is interrupted and one that is killed, after which nothing may be left.
// The NICs are virtual links of one node, joined by a bridge: what is measured is this
// host's kernel.
package measure
