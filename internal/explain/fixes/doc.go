// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package fixes proposes what to change so that claims fit. Each proposal is
// applied to copies and solved before it is told: one that does not help is not
// proposed. Why the claims do not fit is package reason's.
package fixes
