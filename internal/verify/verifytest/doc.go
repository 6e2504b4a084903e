// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package verifytest makes nodes with running pods for tests: a machine file's
// hardware, and below a temporary directory what /proc and /sys would show of
// pods whose truth the test chose. Nothing here uses verify's own readers or
// judgement: it is the other side. Only tests import it.
package verifytest
