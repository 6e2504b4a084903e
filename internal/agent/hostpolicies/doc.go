// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hostpolicies keeps a host as the HostPolicies of its node want it: it knows the
// policies, chooses those of the node, has package hostpolicy do the work, and keeps what
// became of it for the HostReport. What a policy may do to a link is decided there, not
// here.
//
//	watch.go    the cluster's policies
//	convert.go  policies and results between the API's form and hostpolicy's
//	keeper.go   when the host is looked at
package hostpolicies
