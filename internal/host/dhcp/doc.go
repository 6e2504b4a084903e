// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package dhcp is a DHCPv4 client (RFC 2131) for an interface of any network
// namespace. It asks, renews and gives back; what to do with a lease is the
// caller's business, and nothing here changes the interface.
//
// Whoever answers first on a network decides what a client gets, so an answer
// that no host should take is passed over, and said to be unusable when no
// better one comes.
package dhcp
