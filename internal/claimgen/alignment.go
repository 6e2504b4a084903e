// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// What devices can share.
const (
	PCIe   = "pcie"
	NUMA   = "numa"
	Socket = "socket"
	// Any is a fallback only: nothing.
	Any = "any"
)

// levels are what devices can share, the nearest first.
var levels = []string{PCIe, NUMA, Socket, Any}

// attributes say that devices share a level.
var attributes = map[string]resourceapi.FullyQualifiedName{
	PCIe: slicecodec.AttrPCIeRoot, NUMA: slicecodec.AttrNUMANode, Socket: slicecodec.AttrSocket,
}

// fartherThan are the levels after one; none where it is not known.
func fartherThan(level string) []string {
	i := slices.Index(levels, level)
	if i < 0 {
		return nil
	}
	return levels[i+1:]
}

// The first and the last alternative of a request with a fallback. Those
// between are called after what they share.
const (
	near = "near"
	far  = "far"
)

// alternatives are the names of a request's alternatives, the nearest first;
// none without a fallback.
func (o *Options) alternatives() []string {
	if len(o.Fallback) == 0 {
		return nil
	}
	between := o.Fallback[:len(o.Fallback)-1]
	return slices.Concat([]string{near}, between, []string{far})
}
