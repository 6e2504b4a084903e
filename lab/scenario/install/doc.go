// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package install follows README and docs/install.md as a new user does: it types their
// commands, has Prometheus scrape what was installed, breaks the host and mends it, has a
// policy followed, and leaves again. What the node and the API server had before they must
// have afterwards, which is asked of them, and not of plumbline.
//
//	commands.go    the commands of the pages
//	run.go         the order of things
//	tenant.go      what somebody is told who has one namespace
//	prometheus.go  Prometheus, with the settings of docs/metrics.md, and what it must have
//	watcher.go     what Prometheus is asked
//	host.go        a host that is broken and mended
//	policy.go      a HostPolicy that is followed, and taken back
//	before.go      what a cluster has
package install
