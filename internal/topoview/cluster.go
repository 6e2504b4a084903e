// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// ClusterKind identifies the JSON form, of APIVersion. Within a version fields
// are only added.
const ClusterKind = "ClusterTopology"

// Cluster is the nodes of a cluster, summed up: a line for each, what all of them
// have free, and who holds what. Finding the nodes is the caller's.
type Cluster struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Nodes are by name.
	Nodes []ClusterNode `json:"nodes"`
	// Capacity is that of all nodes together. Groups of pairs are of one node each.
	Capacity FreeCapacity `json:"room"`
	// HoldersKnown says whether Claims are all there are: then Capacity is what is
	// left, else what the machines have.
	HoldersKnown bool           `json:"holdersKnown"`
	Claims       []ClusterClaim `json:"claims,omitempty"`
	// Notes are what a reader must know to read the rest rightly.
	Notes []string `json:"notes,omitempty"`
}

// ClusterNode is one machine of the cluster.
type ClusterNode struct {
	Name     string       `json:"name"`
	Capacity FreeCapacity `json:"room"`
	// Claims is how many claims hold something of the node.
	Claims int `json:"claims"`
	// Devices are its GPUs and NICs, for the picture.
	Devices []Device `json:"devices,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// ClusterClaim is a claim that holds devices, with its node.
type ClusterClaim struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Node      string   `json:"node"`
	Pods      []string `json:"pods,omitempty"`
	// Devices are the published names: GPUs, NICs, CPUs.
	Devices []string `json:"devices"`
}

// SumNodes sums up the nodes of a cluster. Their order does not matter.
func SumNodes(nodes []*Topology, holdersKnown bool) *Cluster {
	c := &Cluster{APIVersion: APIVersion, Kind: ClusterKind, Nodes: []ClusterNode{}, HoldersKnown: holdersKnown}
	for _, t := range nodes {
		n := ClusterNode{Name: t.Name, Capacity: t.Capacity, Claims: len(t.Claims)}
		keys := map[string]string{}
		for _, claim := range t.Claims {
			keys[claim.Key] = claim.Namespace + "/" + claim.Name
			c.Claims = append(c.Claims, ClusterClaim{
				Namespace: claim.Namespace, Name: claim.Name, Node: t.Name, Pods: claim.Pods, Devices: claim.Devices,
			})
		}
		for _, d := range t.AllDevices() {
			if d.Kind != KindGPU && d.Kind != KindNIC {
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
		c.add(&t.Capacity)
	}
	slices.SortFunc(c.Nodes, func(a, b ClusterNode) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(c.Claims, func(a, b ClusterClaim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	slices.SortFunc(c.Capacity.Groups, func(a, b Group) int { return a.Size - b.Size })
	return c
}

// add adds a node's free capacity. A cluster of machines that pair in different ways
// says neither.
func (c *Cluster) add(r *FreeCapacity) {
	sum := &c.Capacity
	sum.GPUs, sum.NICs, sum.CPUs = sumCounts(sum.GPUs, r.GPUs), sumCounts(sum.NICs, r.NICs), sumCounts(sum.CPUs, r.CPUs)
	if r.PairedBy == "" {
		return
	}
	switch {
	case sum.Pairs.Total == 0:
		sum.PairedBy = r.PairedBy
	case sum.PairedBy != r.PairedBy:
		sum.PairedBy = ByEither
	}
	sum.Pairs = sumCounts(sum.Pairs, r.Pairs)
	for _, g := range r.Groups {
		i := slices.IndexFunc(sum.Groups, func(have Group) bool { return have.Size == g.Size })
		if i < 0 {
			sum.Groups = append(sum.Groups, g)
			continue
		}
		have := &sum.Groups[i]
		have.Count = sumCounts(have.Count, g.Count)
		if have.Within != g.Within {
			have.Within = ByEither
		}
	}
}

func sumCounts(a, b Count) Count {
	return Count{Free: a.Free + b.Free, Total: a.Total + b.Total}
}

// ClusterText writes a line for each node, with "free/total" of each thing, and the
// free capacity of all. wide adds who holds what.
func ClusterText(w io.Writer, c *Cluster, wide bool) error {
	out := bufio.NewWriter(w)
	c.nodes(out)
	if room := c.Capacity.Text(c.HoldersKnown); room != "" {
		fmt.Fprintf(out, "\n%s: room for %s\n", plural.Count(len(c.Nodes), "node", "nodes"), room)
	}
	if wide {
		c.stranded(out)
		c.claims(out)
	}
	if notes := c.allNotes(); len(notes) > 0 {
		fmt.Fprintln(out)
		for _, n := range notes {
			fmt.Fprintln(out, "· "+printable.Text(n))
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write overview: %w", err)
	}
	return nil
}

func (c *Cluster) nodes(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "NODE\tGPUS\tNICS\tCPUS\tPAIRS")
	for _, g := range c.Capacity.Groups {
		fmt.Fprintf(table, "\tGROUPS OF %d", g.Size)
	}
	fmt.Fprintln(table, "\tSTRANDED\tCLAIMS")
	for i := range c.Nodes {
		n := &c.Nodes[i]
		row := []string{printable.Text(n.Name), freeOfTotal(n.Capacity.GPUs), freeOfTotal(n.Capacity.NICs), freeOfTotal(n.Capacity.CPUs), freeOfTotal(n.Capacity.Pairs)}
		for _, g := range c.Capacity.Groups {
			row = append(row, freeOfTotal(countOfGroups(&n.Capacity, g.Size)))
		}
		row = append(row, strconv.Itoa(len(n.Capacity.Stranded)), strconv.Itoa(n.Claims))
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush() //nolint:errcheck // out keeps the error until its own Flush
}

func countOfGroups(r *FreeCapacity, size int) Count {
	for _, g := range r.Groups {
		if g.Size == size {
			return g.Count
		}
	}
	return Count{}
}

// freeOfTotal is "3/8", or "-" for what the node does not have.
func freeOfTotal(t Count) string {
	if t.Total == 0 {
		return "-"
	}
	return strconv.Itoa(t.Free) + "/" + strconv.Itoa(t.Total)
}

func (c *Cluster) stranded(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	head := "\nSTRANDED\tNODE\tWHY\n"
	for _, n := range c.Nodes {
		for _, d := range n.Devices {
			if d.Stranded != "" {
				fmt.Fprintf(table, "%s%s\t%s\t%s\n", head, printable.Text(d.Name), printable.Text(n.Name), printable.Text(d.Stranded))
				head = ""
			}
		}
	}
	table.Flush() //nolint:errcheck // out keeps the error until its own Flush
}

func (c *Cluster) claims(out io.Writer) {
	if len(c.Claims) == 0 {
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\nCLAIM\tPODS\tNODE\tDEVICES")
	for _, claim := range c.Claims {
		pods := "<none>"
		if len(claim.Pods) > 0 {
			pods = strings.Join(claim.Pods, ",")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", printable.Text(claim.Namespace+"/"+claim.Name), printable.Text(pods),
			printable.Text(claim.Node), printable.Text(strings.Join(claim.Devices, ", ")))
	}
	table.Flush() //nolint:errcheck // out keeps the error until its own Flush
}

// allNotes are those of the cluster, then those of its nodes.
func (c *Cluster) allNotes() []string {
	notes := append([]string{}, c.Notes...)
	for _, n := range c.Nodes {
		for _, note := range n.Notes {
			notes = append(notes, n.Name+": "+note)
		}
	}
	return notes
}
