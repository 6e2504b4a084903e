// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package facts reads facts files: one machine as people wrote it down, in
// YAML, every value sourced (machines/README.md). Reading is strict, and reports all
// errors at once, with lines.
//
// It has the schema, its checks, and what follows from the facts by one rule, such as
// which CPUs make a core. What a kernel would show of a machine belongs to render.
package facts
