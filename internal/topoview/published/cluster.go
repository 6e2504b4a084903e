// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package published arranges nodes as their ResourceSlices describe them, with
// the claims that hold their devices. Listing slices and claims is the caller's,
// drawing topoview's.
package published

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Cluster is what is published and claimed at one moment.
type Cluster struct {
	// Slices are as Current keeps them.
	Slices []resourceapi.ResourceSlice
	Claims []resourceapi.ResourceClaim
	// Unknown says why the claims are not known, such as a missing right; empty
	// when they are.
	Unknown string
}

// poolID names a pool: pools of two drivers may have one name.
type poolID struct{ driver, pool string }

func poolOf(s *resourceapi.ResourceSlice) poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

// Current keeps the slices of nodes that describe something of the machine, of each
// pool those of the newest generation only: older ones are about to be deleted.
func Current(all []resourceapi.ResourceSlice) []resourceapi.ResourceSlice {
	newest := map[poolID]int64{}
	for i := range all {
		newest[poolOf(&all[i])] = max(newest[poolOf(&all[i])], all[i].Spec.Pool.Generation)
	}
	return slices.DeleteFunc(all, func(s resourceapi.ResourceSlice) bool {
		return s.Spec.NodeName == nil || !slicecodec.Describes(&s) ||
			s.Spec.Pool.Generation < newest[poolOf(&s)]
	})
}

// OfNode is the slices of one node.
func (c Cluster) OfNode(node string) []resourceapi.ResourceSlice {
	var own []resourceapi.ResourceSlice
	for _, s := range c.Slices {
		if s.Spec.NodeName != nil && *s.Spec.NodeName == node {
			own = append(own, s)
		}
	}
	return own
}
