// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package preflight says whether the kernel's driver of NICs on this host may be replaced:
// it runs before a container that does so. It changes nothing.
package preflight
