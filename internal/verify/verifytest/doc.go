// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package verifytest makes nodes with running pods for tests: a machine file's
// hardware, and below a temporary directory what /proc and /sys would show of
// pods whose state the test chose. Nothing here uses verify's own readers or
// evaluation, so a mistake of theirs shows. Only tests import it.
package verifytest
