// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring holds the tests of the chart's alerts and dashboard: that promtool
// takes them, that the alerts fire on series where they should and on no others, and
// that each has a page in docs/runbooks.
package monitoring
