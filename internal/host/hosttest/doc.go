// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hosttest gives tests hosts of their own. Only tests import it.
package hosttest
