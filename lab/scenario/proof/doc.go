// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package proof makes running pods misaligned behind everybody's back and asks
// whether it is found: by the agent that serves them, and by an observer of
// deploy/observe.yaml beside it, which must not touch the host. What is true it
// knows because it did it itself.
package proof
