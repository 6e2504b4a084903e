// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package guest is the agreement between this host and the first program of a
// virtual machine: what the guest shall become (Plan), and what it can be
// asked while it runs (Request, Response). Nothing here runs anything.
package guest
