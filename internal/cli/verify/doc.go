// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package verify is the command "plumbline verify": it has pods looked at where
// their kernel can be read, and prints what was found.
//
//	command.go the command line
//	pods.go    which pods, and on which nodes
//	agents.go  asking the agents, by exec into their pods
//	host.go    reading this host itself
//	text.go    the report for people
//
// What is true of a pod is decided in package internal/verify.
package verify
