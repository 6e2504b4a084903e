// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package perftest reads what ib_write_lat, ib_write_bw and their like print (perftest 4.5 of
// Debian 12 and 25.01 of Debian 13): the table, and the file of --out_json. It does not run
// them.
//
// A table's columns are read by their names, since releases differ in which there are. Left
// out is t_stdev: perftest squares its differences as whole numbers, so that a spread of less
// than a microsecond reads 0.00.
package perftest
