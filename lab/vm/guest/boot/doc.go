// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package boot is what the first program of a virtual machine does: it turns a
// bare kernel into the node that a guest.Plan describes. It runs in the guest
// only, as process 1 and its one child.
package boot
