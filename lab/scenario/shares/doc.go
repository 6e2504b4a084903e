// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package shares has a HostPolicy share one NIC of a node, and pods that claim a share of it
// reach each other by links of their own. It takes the offer away under them, ends the agent,
// and wants the node to be as before once they have gone. The manifests are those of
// docs/shared-nics.md.
package shares
