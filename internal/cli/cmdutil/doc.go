// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cmdutil is what all commands have in common: mistakes on the command
// line, the files it names, the flags that find a cluster, and pictures that are
// drawn again on a terminal. No command lives here.
package cmdutil
