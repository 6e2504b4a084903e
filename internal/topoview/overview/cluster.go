// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"

	"plumbline.dev/plumbline/internal/topoview"
)

// Kind identifies the JSON form, of topoview.APIVersion. Within a version fields
// are only added.
const Kind = "ClusterTopology"

// Cluster is the nodes of a cluster, summed up.
type Cluster struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Nodes are by name.
	Nodes []Node `json:"nodes"`
	// Room is that of all nodes together. Groups of pairs are of one node each.
	Room topoview.Room `json:"room"`
	// HoldersKnown says whether Claims are all there are: then Room is what is
	// left, else what the machines have.
	HoldersKnown bool    `json:"holdersKnown"`
	Claims       []Claim `json:"claims,omitempty"`
	// Notes are what a reader must know to read the rest rightly.
	Notes []string `json:"notes,omitempty"`
}

// Node is one machine of the cluster.
type Node struct {
	Name string        `json:"name"`
	Room topoview.Room `json:"room"`
	// Claims is how many claims hold something of the node.
	Claims int `json:"claims"`
	// Devices are its GPUs and NICs, for the picture.
	Devices []topoview.Device `json:"devices,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
}

// Claim is a claim that holds devices.
type Claim struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Node      string   `json:"node"`
	Pods      []string `json:"pods,omitempty"`
	// Devices are the published names: GPUs, NICs, CPUs.
	Devices []string `json:"devices"`
}

// Sum sums up nodes. Their order does not matter.
func Sum(nodes []*topoview.Topology, holdersKnown bool) *Cluster {
	c := &Cluster{APIVersion: topoview.APIVersion, Kind: Kind, Nodes: []Node{}, HoldersKnown: holdersKnown}
	for _, t := range nodes {
		n := Node{Name: t.Name, Room: t.Room, Claims: len(t.Claims)}
		keys := map[string]string{}
		for _, claim := range t.Claims {
			keys[claim.Key] = claim.Namespace + "/" + claim.Name
			c.Claims = append(c.Claims, Claim{
				Namespace: claim.Namespace, Name: claim.Name, Node: t.Name, Pods: claim.Pods, Devices: claim.Devices,
			})
		}
		for _, d := range t.AllDevices() {
			if d.Kind != topoview.KindGPU && d.Kind != topoview.KindNIC {
				continue
			}
			names := make([]string, len(d.Claims)) // keys are of one node
			for i, key := range d.Claims {
				names[i] = keys[key]
			}
			d.Claims = names
			n.Devices = append(n.Devices, d)
		}
		c.Nodes = append(c.Nodes, n)
		c.add(&t.Room)
	}
	slices.SortFunc(c.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(c.Claims, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	slices.SortFunc(c.Room.Groups, func(a, b topoview.Group) int { return a.Size - b.Size })
	return c
}

// add adds a node's room. A cluster of machines that pair in different ways
// says neither.
func (c *Cluster) add(r *topoview.Room) {
	sum := &c.Room
	sum.GPUs, sum.NICs, sum.CPUs = plus(sum.GPUs, r.GPUs), plus(sum.NICs, r.NICs), plus(sum.CPUs, r.CPUs)
	if r.PairedBy == "" {
		return
	}
	switch {
	case sum.Pairs.Total == 0:
		sum.PairedBy = r.PairedBy
	case sum.PairedBy != r.PairedBy:
		sum.PairedBy = topoview.ByEither
	}
	sum.Pairs = plus(sum.Pairs, r.Pairs)
	for _, g := range r.Groups {
		i := slices.IndexFunc(sum.Groups, func(have topoview.Group) bool { return have.Size == g.Size })
		if i < 0 {
			sum.Groups = append(sum.Groups, g)
			continue
		}
		have := &sum.Groups[i]
		have.Tally = plus(have.Tally, g.Tally)
		if have.Within != g.Within {
			have.Within = topoview.ByEither
		}
	}
}

func plus(a, b topoview.Tally) topoview.Tally {
	return topoview.Tally{Free: a.Free + b.Free, Total: a.Total + b.Total}
}
