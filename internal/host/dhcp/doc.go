// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package dhcp is a DHCPv4 client (RFC 2131) for an interface of any network
// namespace. It acquires, renews and releases leases; what to do with one is the
// caller's business, and nothing here changes the interface.
//
// Any host on the network may answer first, so an invalid answer is skipped, and is an
// error (ErrUnusable) only when no valid one comes.
package dhcp
