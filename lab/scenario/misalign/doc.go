// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package misalign makes running pods misaligned from the node and checks that
// verification flags them: the agent that serves the node, and an observer
// (deploy/observe.yaml) beside it, which must not touch the host. The expected answer
// is known because the package injects each misalignment itself.
package misalign
