// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package podclaims says which of the journal's records a pod and each of its containers
// has, and whether a pod may run with them. It decides from what it is given: records,
// what the runtime shows of sandbox and container, and what the API server says of the
// pod. It reads and changes nothing.
package podclaims
