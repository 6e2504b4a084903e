// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package published arranges nodes as their ResourceSlices describe them, with
// the claims that hold their devices. Listing slices and claims is the caller's,
// drawing topoview's.
package published

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
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

// Overview sums up the nodes with these names, or all of them.
func (c Cluster) Overview(names []string) *topoview.Cluster {
	byNode := map[string]Cluster{}
	for _, s := range c.Slices {
		node := *s.Spec.NodeName
		if len(names) == 0 || slices.Contains(names, node) {
			one := byNode[node]
			one.Slices = append(one.Slices, s)
			byNode[node] = one
		}
	}
	var nodes []*topoview.Topology
	var left []string
	problems := map[string][]string{}
	byPool := c.claimsByPool()
	for node, one := range byNode {
		one.Unknown = c.Unknown
		for _, s := range one.Slices {
			one.Claims = append(one.Claims, byPool[poolOf(&s)]...)
		}
		one.Claims = withoutRepeatedClaims(one.Claims)
		v, err := one.Node(node)
		if err != nil {
			left = append(left, strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		problems[node] = append(v.Left, incomplete(one.Slices)...)
		nodes = append(nodes, v.Topology())
	}
	sum := topoview.SumNodes(nodes, c.Unknown == "")
	slices.Sort(left)
	sum.Notes = append(sum.Notes, left...)
	if c.Unknown != "" {
		sum.Notes = append(sum.Notes, "who holds what is unknown: "+c.Unknown)
	}
	for i := range sum.Nodes {
		sum.Nodes[i].Notes = problems[sum.Nodes[i].Name]
	}
	return sum
}
