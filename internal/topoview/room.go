// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

// What a GPU and a NIC have to share to be a pair, and a group of pairs to be
// one.
const (
	ByRoot = "pcieRoot"
	ByNode = "numaNode"
	// ByMachine is a group that no single NUMA node has room for.
	ByMachine = "machine"
	// ByEither is of several machines that differ in it.
	ByEither = "either"
)

// Tally is how many of some things are free.
type Tally struct {
	Free  int `json:"free"`
	Total int `json:"total"`
}

// Room is what is free for claims, and how well it fits together.
type Room struct {
	GPUs Tally `json:"gpus"`
	NICs Tally `json:"nics"`
	CPUs Tally `json:"cpus"`
	// PairedBy is what a GPU and a NIC of a pair share: ByRoot where any two of
	// the machine can, else ByNode; empty where no two share either.
	PairedBy string `json:"pairedBy,omitempty"`
	// Pairs are claims of one GPU and one NIC that fit side by side.
	Pairs Tally `json:"pairs"`
	// Groups are claims of 2, 4, 8 and so on pairs, each size as if all free
	// devices went to it.
	Groups []Group `json:"groups,omitempty"`
	// Stranded are free devices that no aligned pair can have any more, in the
	// order they are drawn. Their Device says why.
	Stranded []string `json:"stranded,omitempty"`
}

// Group is the room for groups of one size.
type Group struct {
	// Size is in pairs.
	Size int `json:"size"`
	// Within is what the pairs of a group share: ByNode or ByMachine.
	Within string `json:"within"`
	Tally
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

// room counts, and marks what is stranded.
func (t *Topology) room() Room {
	r := Room{}
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
		if pairs := tally(way.units); pairs.Total > 0 {
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

func (a Tally) plus(free, total int) Tally { return Tally{a.Free + free, a.Total + total} }

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
	return d.offered() && d.Taint == "" && (len(d.Claims) == 0 || d.Shared)
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

func tally(nodes [][]*unit) Tally {
	var sum Tally
	for _, units := range nodes {
		for _, u := range units {
			sum = sum.plus(u.free(), u.total())
		}
	}
	return sum
}

// groups takes whole NUMA nodes where one has room for the size when all is
// free, else the machine.
func groups(nodes [][]*unit, all Tally) []Group {
	var list []Group
	for size := 2; size <= all.Total && size <= largestGroup; size *= 2 {
		g := Group{Size: size, Within: ByNode}
		for _, units := range nodes {
			pairs := tally([][]*unit{units})
			g.Tally = g.plus(pairs.Free/size, pairs.Total/size)
		}
		if g.Total == 0 {
			g.Within, g.Tally = ByMachine, Tally{all.Free / size, all.Total / size}
		}
		list = append(list, g)
	}
	return list
}
