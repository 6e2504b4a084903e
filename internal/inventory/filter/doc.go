// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package filter is an administrator's word on what is offered: an expression
// over published attributes, which takes NICs out, and a list of virtual
// interfaces, which takes them in.
//
// Neither can offer what the inventory protects: uplinks, bridges, bonds, their
// ports, and links of network plugins.
package filter
