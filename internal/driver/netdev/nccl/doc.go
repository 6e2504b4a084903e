// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nccl says which NICs a container has in the words of the libraries that use
// them: the environment variables of NCCL and UCX, and NCCL's topology file. It is pure:
// what the container sees of its NICs is read by the driver.
package nccl
