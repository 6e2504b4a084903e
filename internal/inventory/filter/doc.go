// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package filter is which NICs an administrator has published: a CEL expression over
// published attributes excludes NICs, and a list of virtual interfaces includes them.
//
// Neither can include what the inventory withholds: uplinks, bridges, bonds, their
// ports, and links of network plugins.
package filter
