// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nccltests reads what nccl-tests print (all_reduce_perf and its like): the table,
// with whatever mpirun and NCCL wrote around and between its lines, and the file of -J. It
// does not run them.
//
// The file of -J holds the whole environment of rank 0, secrets included. It is never
// decoded, and no error shows any of the file.
package nccltests
