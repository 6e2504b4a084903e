// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package explaintest makes clusters and claims for tests, at random or as
// asked, and asks the scheduler's own allocator about them. Only tests import
// it.
package explaintest
