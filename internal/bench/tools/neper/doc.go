// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package neper reads what neper's tcp_stream prints with --logtostderr or into a file: lines
// of key=value. It does not run it.
//
// throughput is what this side read. A side that only writes has none, and local_throughput
// is 0 there: the answer is then on the other side.
package neper
