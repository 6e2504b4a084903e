// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import "fmt"

// strand marks free devices that have lost their partners: all of a place
// where none of the other kind is free any more, else as many of the last as
// the other kind has fewer free than the machine was built with.
func strand(by string, nodes [][]*unit) {
	for _, units := range nodes {
		for _, u := range units {
			if u.total() == 0 {
				continue // none was ever there
			}
			mark(u.freeGPUs, excess(u.freeGPUs, u.freeNICs, u.gpus, u.nics), "NIC", by)
			mark(u.freeNICs, excess(u.freeNICs, u.freeGPUs, u.nics, u.gpus), "GPU", by)
		}
	}
}

func excess(free, partners, all, allPartners []*Device) int {
	if len(partners) == 0 {
		return len(free)
	}
	return max(0, len(free)-len(partners)-max(0, len(all)-len(allPartners)))
}

func mark(free []*Device, n int, partner, by string) {
	where := "its PCIe root"
	if by == ByNode {
		where = "its NUMA node"
	}
	for _, d := range free[len(free)-n:] {
		d.Stranded = "no free " + partner + " is left for it on " + where
	}
}

// withoutCPUs notes free GPUs of NUMA nodes all of whose CPUs are held: a claim
// that wants CPUs beside its GPU cannot have them.
func (t *Topology) withoutCPUs() []string {
	var notes []string
	t.eachNode(func(n *Node) {
		gpus := 0
		n.eachDevice(func(d *Device) {
			if d.computes() && d.free() {
				gpus++
			}
		})
		if n.ID != nil && n.CPUCount > 0 && n.CPUsFree() == 0 && gpus > 0 {
			notes = append(notes, fmt.Sprintf("NUMA node %d has %s and no free CPU: claims of a GPU with CPUs of its node do not fit there",
				*n.ID, Count(gpus, "free GPU", "free GPUs")))
		}
	})
	return notes
}

// CPUsFree is how many CPUs of the node claims can still have.
func (n *Node) CPUsFree() int {
	free := n.CPUCount - n.ReservedCount
	for _, h := range n.Holds {
		free -= h.Count
	}
	return max(0, free)
}
