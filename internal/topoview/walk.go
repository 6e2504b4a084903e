// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"slices"
	"strings"
)

// eachNode visits the NUMA nodes in order, then the group for none.
func (t *Topology) eachNode(visit func(*Node)) {
	for i := range t.Sockets {
		for j := range t.Sockets[i].Nodes {
			visit(&t.Sockets[i].Nodes[j])
		}
	}
	if t.Unplaced != nil {
		visit(t.Unplaced)
	}
}

// eachDevice visits the devices of a node in the order they are drawn.
func (n *Node) eachDevice(visit func(*Device)) {
	for i := range n.Roots {
		n.Roots[i].eachDevice(visit)
	}
	for i := range n.Devices {
		visit(&n.Devices[i])
	}
}

// eachDevice visits the devices of a branch, those of bridges last.
func (br *Branch) eachDevice(visit func(*Device)) {
	for i := range br.Devices {
		visit(&br.Devices[i])
	}
	for i := range br.Bridges {
		br.Bridges[i].eachDevice(visit)
	}
}

func (br *Branch) empty() bool { return len(br.Devices)+len(br.Bridges) == 0 }

// simulated lists what stands in for what, each once, in order.
func simulated(t *Topology) []string {
	var list []string
	for _, d := range t.AllDevices() {
		text := d.Simulated
		if text != "" && d.Model != "" && !strings.Contains(text, d.Model) {
			text += " for " + d.Model
		}
		if text != "" && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// AllDevices lists every device of the picture, in the order they are drawn.
func (t *Topology) AllDevices() []Device {
	var list []Device
	t.eachNode(func(n *Node) {
		n.eachDevice(func(d *Device) { list = append(list, *d) })
	})
	return list
}
