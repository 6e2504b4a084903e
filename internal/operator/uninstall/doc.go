// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package uninstall is what the hooks of an uninstallation do in the cluster: before it,
// refuse while pods hold devices; after it, take off what the controllers wrote, and wait
// for the hosts to be clean. What is done on a host is the agent's part.
//
//	held.go     who holds devices
//	cleanup.go  nodes, the Lease, and the DaemonSet that cleans hosts
package uninstall
