// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package ethtool reads and sets what ethtool(8) shows of an interface: offload
// features and a driver's private flags, by the kernel's names
// (net/ethtool/common.c, netdev_features_strings), its speed, and all else that can be
// set of a driver, from channels to rules for received packets (Settings).
//
// Every call goes through a Conn, a socket that was opened in the network
// namespace it is about. What is set is read back: the kernel acknowledges a request
// for a feature also when another feature keeps it from having effect.
package ethtool
