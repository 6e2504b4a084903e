// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package rdma reads and moves RDMA devices by netlink
// (include/uapi/rdma/rdma_netlink.h, man 8 rdma).
//
// In shared mode every network namespace sees all RDMA devices, and only the
// interface below one moves. In exclusive mode a device is in one namespace and
// moves by itself.
package rdma
