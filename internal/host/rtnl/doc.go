// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package rtnl reads and changes the links, addresses, routes and neighbours of
// a network namespace by rtnetlink (Documentation/userspace-api/netlink/, man 7
// rtnetlink). It is, with host/rdma, the only importer of the netlink library.
//
// Every call goes through a Conn, a socket opened in the namespace it is about,
// so that no caller changes the namespace of a thread. What must come back
// exactly as it was (addresses, routes, neighbours) is kept as the kernel's own
// message, as "ip route save" does, and not as a selection of its fields.
//
// Which link to take, and when, is the drivers' business.
package rtnl
