// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nslink finds a NIC's link in a network namespace: NetNSConn is a
// namespace with an rtnetlink socket in it, and Identity what a NIC keeps when
// it moves from one namespace to another.
//
// What to change in a namespace is not decided here, but by hoststate on the host and
// by podstate in a pod.
package nslink
