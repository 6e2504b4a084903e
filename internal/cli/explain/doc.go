// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package explain is the command that says why claims are not allocated: it
// gathers what internal/explain needs, from a cluster, from files, or from
// machine files, and prints the report. It decides nothing.
package explain
