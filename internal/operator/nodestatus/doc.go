// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nodestatus makes what a HostReport says seen on its Node: conditions that
// people, alerts and the node readiness controller read, and the labels by which
// manifests written for Node Feature Discovery choose nodes. What is gone from the
// reports goes from the nodes; what somebody edits is put right.
//
//	conditions.go  which conditions a report comes to
//	labels.go      which labels
//	patch.go       what has to be written, if anything
//	reconciler.go  when
//	cleanup.go     taking all of it off again
//
// A node's kubelet and Node Feature Discovery own the rest of a Node: an admission
// policy of the chart keeps everything else from being written.
package nodestatus
