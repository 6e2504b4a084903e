// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package metadata is a GCE metadata server for a node of the lab: it tells the
// node's agent what the machine file says of the networks its NICs are on. It
// serves on the host's loopback, where a guest sees it at an address of its
// own. What the file does not say, it does not know either.
package metadata
