// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package imds speaks to instance metadata services: the HTTP server that every
// instance of a cloud finds at an address of its own link. Whatever answers there
// is not trusted: one server and no other, no proxy, no redirect, bounds on time
// and size. What the answers mean lives with each cloud.
package imds
