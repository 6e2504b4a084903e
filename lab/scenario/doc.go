// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package scenario runs the mission's manifests on the lab's cluster and judges
// what became of them.
//
// Facts are read twice: inside the pod, and on the node through /proc. Neither
// reading asks plumbline; both are the kernel's own files. The judgement is a
// pure function of facts and claim, in package judge.
//
// Starting and stopping the cluster belongs to the command; this package only
// uses one that runs.
package scenario
