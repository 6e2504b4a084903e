// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hosttest gives tests network namespaces, links and sysfs trees of their own.
// Only tests import it.
package hosttest
