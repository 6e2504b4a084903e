// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/topoview"
)

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
