// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package harness holds what the lab's scenarios share: waiting for the cluster, and
// the shell functions that their scripts use on a node. What one scenario alone needs
// stays with that scenario.
package harness
