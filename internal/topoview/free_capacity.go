// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"fmt"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// What a GPU and a NIC have to share to be a pair, and a group of pairs to be
// one.
const (
	ByRoot = "pcieRoot"
	ByNode = "numaNode"
	// ByMachine is a group that no single NUMA node can hold.
	ByMachine = "machine"
	// ByEither is of several machines that differ in it.
	ByEither = "either"
)

// Count is how many of some things are free.
type Count struct {
	Free  int `json:"free"`
	Total int `json:"total"`
}

// FreeCapacity is what is free for claims, and how well it fits together.
type FreeCapacity struct {
	GPUs Count `json:"gpus"`
	NICs Count `json:"nics"`
	CPUs Count `json:"cpus"`
	// PairedBy is what a GPU and a NIC of a pair share: ByRoot where any two of
	// the machine can, else ByNode; empty where no two share either.
	PairedBy string `json:"pairedBy,omitempty"`
	// Pairs are claims of one GPU and one NIC that fit side by side.
	Pairs Count `json:"pairs"`
	// Groups are claims of 2, 4, 8 and so on pairs, each size as if all free
	// devices went to it.
	Groups []Group `json:"groups,omitempty"`
	// Stranded are free devices that no aligned pair can have any more, in the
	// order they are drawn. Their Device says why.
	Stranded []string `json:"stranded,omitempty"`
}

// Group is the free capacity for groups of one size.
type Group struct {
	// Size is in pairs.
	Size int `json:"size"`
	// Within is what the pairs of a group share: ByNode or ByMachine.
	Within string `json:"within"`
	Count
}

// largestGroup is beyond what machines have.
const largestGroup = 64

// unit is a place that pairs are made of.
type unit struct {
	gpus, nics         []*Device // those on offer
	freeGPUs, freeNICs []*Device
}

func (u *unit) free() int  { return min(len(u.freeGPUs), len(u.freeNICs)) }
func (u *unit) total() int { return min(len(u.gpus), len(u.nics)) }

// freeCapacity counts, and marks what is stranded.
func (t *Topology) freeCapacity() FreeCapacity {
	r := FreeCapacity{}
	rdma := t.hasRDMA()
	var byRoot, byNode [][]*unit // by NUMA node
	t.eachNode(func(n *Node) {
		r.CPUs.Total += n.CPUCount
		r.CPUs.Free += n.CPUsFree()
		whole, roots := &unit{}, []*unit{}
		for i := range n.Roots {
			u := &unit{}
			n.Roots[i].eachDevice(func(d *Device) { u.add(d, rdma); whole.add(d, rdma) })
			if n.Roots[i].Published {
				roots = append(roots, u)
			}
		}
		for i := range n.Devices {
			whole.add(&n.Devices[i], rdma)
		}
		r.GPUs = r.GPUs.plus(len(whole.freeGPUs), len(whole.gpus))
		r.NICs = r.NICs.plus(len(whole.freeNICs), len(whole.nics))
		byRoot = append(byRoot, roots)
		if n.ID != nil {
			byNode = append(byNode, []*unit{whole})
		}
	})
	for _, way := range []struct {
		by    string
		units [][]*unit
	}{{ByRoot, byRoot}, {ByNode, byNode}} {
		if pairs := countUnits(way.units); pairs.Total > 0 {
			r.PairedBy, r.Pairs = way.by, pairs
			r.Groups = groups(way.units, pairs)
			strand(way.by, way.units)
			break
		}
	}
	for _, d := range t.AllDevices() {
		if d.Stranded != "" {
			r.Stranded = append(r.Stranded, d.Name)
		}
	}
	return r
}

func (a Count) plus(free, total int) Count { return Count{a.Free + free, a.Total + total} }

// hasRDMA says whether any NIC on offer has an RDMA device: then those without
// are no partners of GPUs.
func (t *Topology) hasRDMA() bool {
	for _, d := range t.AllDevices() {
		if d.Kind == KindNIC && d.offered() && d.RDMAText() != "" {
			return true
		}
	}
	return false
}

// computes says whether the device is a partner of NICs.
func (d *Device) computes() bool { return d.Kind == KindGPU || d.Kind == KindAccelerator }

// RDMAText names the RDMA device, as far as its name is known; empty without one.
func (d *Device) RDMAText() string {
	if d.RDMAUnnamed {
		return "RDMA"
	}
	return d.RDMA
}

// offered says whether a driver offers the device.
func (d *Device) offered() bool { return d.Name != "" && d.Withheld == "" }

// free says whether a claim can have the device now.
func (d *Device) free() bool {
	return d.offered() && d.Taint == "" && len(d.Plugged) == 0 && (len(d.Claims) == 0 || d.Shared && !d.UsedUp && !d.split())
}

func (u *unit) add(d *Device, rdma bool) {
	if !d.offered() {
		return
	}
	switch {
	case d.computes():
		u.gpus = append(u.gpus, d)
		if d.free() {
			u.freeGPUs = append(u.freeGPUs, d)
		}
	case d.Kind == KindNIC && (d.RDMAText() != "" || !rdma):
		u.nics = append(u.nics, d)
		if d.free() {
			u.freeNICs = append(u.freeNICs, d)
		}
	}
}

func countUnits(nodes [][]*unit) Count {
	var sum Count
	for _, units := range nodes {
		for _, u := range units {
			sum = sum.plus(u.free(), u.total())
		}
	}
	return sum
}

// groups takes whole NUMA nodes where one has room for the size when all is
// free, else the machine.
func groups(nodes [][]*unit, all Count) []Group {
	var list []Group
	for size := 2; size <= all.Total && size <= largestGroup; size *= 2 {
		g := Group{Size: size, Within: ByNode}
		for _, units := range nodes {
			pairs := countUnits([][]*unit{units})
			g.Count = g.plus(pairs.Free/size, pairs.Total/size)
		}
		if g.Total == 0 {
			g.Within, g.Count = ByMachine, Count{all.Free / size, all.Total / size}
		}
		list = append(list, g)
	}
	return list
}

// Text is the free capacity in words: "7 more GPU+NIC pairs by PCIe root, 1 more group
// of 4". known says that the holders are known; without them it is what the
// machine has when nothing is held. Empty where there are no pairs.
func (r *FreeCapacity) Text(known bool) string {
	if r.PairedBy == "" {
		return ""
	}
	by := "by PCIe root"
	switch r.PairedBy {
	case ByNode:
		by = "by NUMA node"
	case ByEither:
		by = "by PCIe root or NUMA node"
	}
	parts := []string{amount(r.Pairs.Free, known, "GPU+NIC pair", "GPU+NIC pairs") + " " + by}
	for _, g := range r.Groups {
		size := strconv.Itoa(g.Size)
		text := amount(g.Free, known, "group of "+size, "groups of "+size)
		if g.Within == ByMachine {
			text += " over NUMA nodes"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func amount(n int, more bool, one, many string) string {
	text := plural.Count(n, one, many)
	if n == 0 {
		return "no " + one
	}
	if more {
		number, rest, _ := strings.Cut(text, " ")
		return number + " more " + rest
	}
	return text
}

// StrandedText names the stranded devices, "" for none.
func (r *FreeCapacity) StrandedText() string {
	if len(r.Stranded) == 0 {
		return ""
	}
	names := make([]string, len(r.Stranded))
	for i, name := range r.Stranded {
		names[i] = printable.Text(name)
	}
	return strings.Join(names, ", ")
}

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
				*n.ID, plural.Count(gpus, "free GPU", "free GPUs")))
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
