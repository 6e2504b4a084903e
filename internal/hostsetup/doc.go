// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hostsetup makes those changes of a host that an agent's capabilities do not
// allow: kernel modules, settings of the whole kernel, and registers of PCI functions and
// the number of their virtual ones.
//
// The agent decides and remembers (package hostpolicy). It asks by a file; a process with
// more rights, which runs only while something is asked, carries out what Change.Validate
// allows and answers by another. That process talks to nobody, and has no token.
//
//	change.go   what may be asked, and its allow lists
//	files.go    requests and answers
//	asker.go    the agent's side
//	server.go   the other side
//	host.go     reading and writing
//	modules.go  loading and unloading
package hostsetup
