// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package ethtool reads and sets what ethtool(8) shows of an interface: offload
// features and a driver's private flags, by the kernel's names
// (net/ethtool/common.c, netdev_features_strings), its speed, and all that a
// driver can be told, from channels to rules for received packets (Settings).
//
// Every call goes through a Conn, a socket that was opened in the network
// namespace it is about. What is set is read back: the kernel takes a request
// for a feature without a word when another feature keeps it from acting.
package ethtool
