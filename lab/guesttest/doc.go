// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package guesttest runs Go tests of the main module in a virtual machine: as
// root, on a kernel with every link type, and with PCI NICs that a test may
// move and lose. It builds the test binaries, boots a machine that runs nothing
// else, and counts what became of each test. Judging the code is the tests'
// business; keeping clusters is package cluster's.
package guesttest
