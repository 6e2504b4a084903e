// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what the agent and the operator do, for Prometheus. A Metrics
// is a value with a registry of its own, made once and handed down; the words of its
// methods are the program's, so that nobody else needs the library. Who may read
// the figures is decided in package endpoint.
//
// definitions.go lists every metric, its labels and what it means;
// docs/metrics.md shows the same list, and a test keeps the two equal.
package metrics
