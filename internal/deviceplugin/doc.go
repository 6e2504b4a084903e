// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin is the words in which the agent tells what device plugins gave to
// the pods of its node, and how device plugins call their resources. The kubelet alone
// knows: no object of the cluster says which GPU a pod with nvidia.com/gpu got.
//
//	resource.go names of resources, and what their device IDs say
//	report.go   the answer of an agent
//
// Asking the kubelet is internal/agent/deviceplugins', drawing is topoview's.
package deviceplugin
