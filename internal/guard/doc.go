// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package guard keeps a container from starting without the devices it was
// given. It is what plumbline-guard does: the OCI runtime starts that program on
// the host as a createRuntime hook, after the container's namespaces and cgroup
// exist and before its first process runs, and a hook that fails fails the
// container.
//
//	CDI spec ─► hook arguments ─► Want ─┐
//	OCI state on stdin ─► pid ──────────┴─► looks ─► waits ─► starts or fails
//
// The agent asks the same questions with Missing when it repairs. Nothing here
// changes anything, and the program needs no agent.
package guard
