// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package compare measures drivers of NICs beside each other on one node, by turns,
// as the owner of a pod sees them: how long a pod takes from its creation to Ready,
// how long its NICs take from its deletion to the host, and what the agents weigh.
//
// What a pod without any claim takes is measured with each driver, too, and taken
// off: it is the cluster's part. What the figures are to be is the report's.
package compare
