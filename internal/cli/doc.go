// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the plumbline command: what a person types becomes calls of
// the other packages, and their answers become text, JSON or SVG.
//
// Here live flags, help and output, no knowledge of machines or claims. Run is
// the only way in. Nothing here ends the process.
package cli
