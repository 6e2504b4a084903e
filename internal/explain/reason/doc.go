// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package reason says why claims do not fit on a node: the first request that
// cannot be met, the smallest set of requests and constraints that conflict, and
// what kind of cause that is, with devices, values and holders. What to do about
// it is package fixes'.
package reason
