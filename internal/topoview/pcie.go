// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"plumbline.dev/plumbline/internal/model"
)

// placeRoots hangs every root that leads to a device below its NUMA node.
func (b *builder) placeRoots() {
	pci := b.pciTree()
	for _, r := range b.m.Roots {
		top := pci.branch(pci.top[r.Name])
		// What a loop of parents hides from the walk hangs from the root itself.
		for _, f := range pci.byRoot[r.Name] {
			if !pci.seen[f.Address] {
				pci.seen[f.Address] = true
				top.Devices = append(top.Devices, pci.devices[f.Address]...)
			}
		}
		if top.empty() {
			continue
		}
		b.rootCount++
		node := r.NUMANode
		if node == nil {
			node = agreedNode(&top)
		}
		place := b.place(node)
		top.eachDevice(func(d *Device) {
			d.Misplaced = d.NUMANode != nil && (place.ID == nil || *place.ID != *d.NUMANode)
		})
		place.Roots = append(place.Roots, Root{Name: r.Name, Published: r.Published, Branch: top})
	}
}

// agreedNode is the node that the devices of a branch name, or nil where they
// name none or several. A device that names none is passed over: older GPU
// drivers publish a root and no node.
func agreedNode(br *Branch) *int {
	var node *int
	agreed := true
	br.eachDevice(func(d *Device) {
		switch {
		case d.NUMANode == nil:
		case node == nil:
			node = d.NUMANode
		case *node != *d.NUMANode:
			agreed = false
		}
	})
	if !agreed {
		return nil
	}
	return node
}

// pciTree is the functions by parent, and what to draw for each.
type pciTree struct {
	top      map[string][]*model.PCIFunction // without a parent, by root
	byRoot   map[string][]*model.PCIFunction
	children map[model.PCIAddress][]*model.PCIFunction
	devices  map[model.PCIAddress][]Device
	seen     map[model.PCIAddress]bool
}

func (b *builder) pciTree() *pciTree {
	t := &pciTree{
		top: map[string][]*model.PCIFunction{}, byRoot: map[string][]*model.PCIFunction{},
		children: map[model.PCIAddress][]*model.PCIFunction{},
		devices:  b.pciDevices(), seen: map[model.PCIAddress]bool{},
	}
	for i := range b.m.Functions {
		f := &b.m.Functions[i]
		t.byRoot[f.Root] = append(t.byRoot[f.Root], f)
		// A parent under another root would draw the function below both.
		if f.Parent == nil || b.m.Function(*f.Parent) == nil || b.m.Function(*f.Parent).Root != f.Root {
			t.top[f.Root] = append(t.top[f.Root], f)
			continue
		}
		t.children[*f.Parent] = append(t.children[*f.Parent], f)
	}
	return t
}

// branch walks functions of one bus. A bridge below which paths part becomes a
// Bridge, any other gives its devices to the branch above.
func (t *pciTree) branch(functions []*model.PCIFunction) Branch {
	var br Branch
	for _, f := range functions {
		if t.seen[f.Address] {
			continue
		}
		t.seen[f.Address] = true
		br.Devices = append(br.Devices, t.devices[f.Address]...)
		children := t.children[f.Address]
		below := t.branch(children)
		if below.empty() {
			continue
		}
		if slots, bridges := t.slots(children); slots > 1 {
			kind := "bridge"
			if bridges == slots {
				kind = "switch"
			}
			br.Bridges = append(br.Bridges, Bridge{Address: f.Address.String(), Kind: kind, Link: link(f), Branch: below})
			continue
		}
		br.Devices = append(br.Devices, below.Devices...)
		br.Bridges = append(br.Bridges, below.Bridges...)
	}
	return br
}

// slots counts the bus positions that lead to a device, and how many of them
// are bridges. Functions of one device share a position.
func (t *pciTree) slots(functions []*model.PCIFunction) (slots, bridges int) {
	type slot struct{ bus, device uint8 }
	kept := map[slot]bool{}
	for _, f := range functions {
		if !t.leads(f, len(t.seen)) {
			continue
		}
		s := slot{f.Address.Bus, f.Address.Device}
		if kept[s] {
			continue
		}
		kept[s] = true
		if len(t.children[f.Address]) > 0 {
			bridges++
		}
	}
	return len(kept), bridges
}

// leads says whether a function is a device or has one below it. depth ends a
// loop of parents.
func (t *pciTree) leads(f *model.PCIFunction, depth int) bool {
	if len(t.devices[f.Address]) > 0 {
		return true
	}
	if depth == 0 {
		return false
	}
	for _, c := range t.children[f.Address] {
		if t.leads(c, depth-1) {
			return true
		}
	}
	return false
}

func link(f *model.PCIFunction) *Link {
	if f == nil || f.Link == nil || f.Link.SpeedMTs == 0 && f.Link.Width == 0 {
		return nil
	}
	l := f.Link
	// An idle GPU lowers its link's speed, so there only the width counts.
	slow := l.SpeedMTs < l.MaxSpeedMTs && f.ClassByte() != model.PCIClassDisplay
	return &Link{MTs: l.SpeedMTs, Width: l.Width, Degraded: slow || l.Width < l.MaxWidth}
}
