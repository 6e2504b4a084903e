// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package explaintest makes clusters and claims for tests, at random or as
// given, and runs the scheduler's own allocator on them. Only tests import
// it.
package explaintest
