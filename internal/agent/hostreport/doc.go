// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hostreport looks at the agent's host as doctor does, and writes what it finds
// as the HostReport of the node when something changed. What is wrong with one device
// reaches the claims that hold it as well, and what concerns GPUs the slices.
//
//	files.go    the host's files, as far as an agent sees them
//	look.go     one look: files and machine become a report that the API takes
//	same.go     which differences are worth a write
//	devices.go  what of it is about the very devices that pods hold
//	offer.go    what of it the published devices say
//	figures.go  how much of it there is
//	reporter.go when to look, when to write, and what to do where it fails
//	store.go    HostReports of the API server
package hostreport
