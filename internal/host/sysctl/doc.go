// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package sysctl reads and writes the settings of one interface below
// /proc/sys/net: ipv4/conf, ipv6/conf, ipv4/neigh and ipv6/neigh
// (Documentation/networking/ip-sysctl.rst). A link that moves to another network
// namespace gets the defaults there, and gets them again when it returns.
//
// The kernel shows the files of the network namespace of the thread that opens
// them (net/sysctl_net.c, net_ctl_header_lookup), whoever mounted them, so one
// writable mount is enough for all namespaces. Settings of a whole namespace are
// written by WriteAll (those of all its interfaces) and WriteNamespace.
package sysctl
