// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package tools is what the readers of measuring tools' output have in common: what a
// figure is, how a reader fails, and how much it reads. Each tool has a package of its own
// below this one, which knows its formats and nothing of pods or clusters.
//
// A reader gives all of what a tool measured or an error. Half a table is no answer: what
// was not written to its end is ErrCut, what the tool itself gave up is ErrFailed.
package tools
