// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package recording writes a host's hardware as one text file and reads it
// again.
//
// It has the list of what a recording contains, and its format. Nothing that identifies
// a machine or its owner is in a recording unless Options.Private is set.
package recording
