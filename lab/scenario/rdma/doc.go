// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package rdma measures RDMA between two pods that claim a NIC each, by perftest, and
// proves by the claimed NICs' own counters that it went over these and nothing else. The
// figures are of emulated processors and software: they are compared with none.
package rdma
