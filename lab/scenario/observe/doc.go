// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package observe has agents that serve nothing look at a pod whose NIC DRANET gave it, has a
// pod that cannot be placed explained, and asks every command that reads a cluster about both:
// on a control plane that is older than what plumbline serves devices on, too. Whether
// observers find what is misaligned is misalign's.
package observe
