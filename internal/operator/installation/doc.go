// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package installation keeps the one Installation of a cluster: how many nodes are to
// have an agent, how many agents serve, what their drivers offer, and which hosts are
// not ready. It says what serves, not what was deployed: an agent whose drivers the
// kubelet does not know counts as one that does not serve.
//
//	summary.go     what objects come to
//	reconciler.go  when it is written
//	trim.go        what is kept of the objects that are watched
package installation
