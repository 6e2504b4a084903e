// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package facts reads facts files: one machine as people wrote it down, in
// YAML, every value sourced (machines/README.md). Reading is strict and tells
// all that is wrong at once, with lines.
//
// Here live the schema, its checks, and what follows from it by one rule, such
// as which CPUs make a core. What a kernel would show of it belongs to render.
package facts
