// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package selector reads the CEL selectors of claims and classes: which driver
// they want, which attributes they read, and which of those a device had better
// not lack. Evaluating them is the scheduler's library's.
package selector
