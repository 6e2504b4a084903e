// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package recording writes a host's hardware as one text file and reads it
// again.
//
// Here live the list of what a recording holds, and its format. Nothing that
// tells a machine or its owner apart is in it unless asked for.
package recording
