// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package node says what makes a machine a Kubernetes node: which programs
// run on it, in what order, and their configuration. It writes nothing and
// starts nothing; a virtual machine's guest puts the result into its initial
// file system.
package node
