// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
)

// TestMachines scans the tree of every shipped machine, and of odd ones, and
// compares the model with the facts the tree was made from: every value of the facts
// must be in it.
func TestMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("reads fixtures only: the same on every kernel")
	}
	more, err := filepath.Glob("../machine/testdata/facts/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(machine.Names(), []string{"testdata/odd.yaml"}, more) {
		t.Run(path.Base(name), func(t *testing.T) {
			facts, err := machine.OpenFacts(name)
			if err != nil {
				t.Fatal(err)
			}
			tree, err := machine.Render(facts)
			if err != nil {
				t.Fatal(err)
			}
			m, problems, err := inventory.Scan(context.Background(), inventory.Sources{Sys: tree}, inventory.Options{Name: facts.Name, Architecture: facts.Arch})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				t.Errorf("problem: %s", p)
			}
			checkUpstream(t, tree, m)
			checkNodes(t, facts, m)
			checkCPUs(t, facts, m)
			for _, d := range facts.GPUs {
				checkFunction(t, d, m)
			}
			for i, d := range facts.NICs {
				checkFunction(t, d, m)
				checkNIC(t, facts, i, m)
			}
			if want := len(facts.NICs); len(m.NICs) != want {
				t.Errorf("got %d NICs, want %d", len(m.NICs), want)
			}
			for _, r := range facts.Roots {
				checkRoot(t, r, m)
			}
		})
	}
}

func checkNodes(t *testing.T, facts *machine.Facts, m *model.Machine) {
	t.Helper()
	nodes := facts.Nodes()
	if len(m.NUMANodes) != len(nodes) {
		t.Errorf("got %d NUMA nodes, want %d", len(m.NUMANodes), len(nodes))
	}
	for _, want := range nodes {
		got := m.NUMANode(want.ID)
		switch {
		case got == nil:
			t.Errorf("NUMA node %d is missing", want.ID)
			continue
		case !got.CPUs.Equals(want.CPUs):
			t.Errorf("NUMA node %d: CPUs %s, want %s", want.ID, got.CPUs, want.CPUs)
		case got.MemoryBytes == nil:
			t.Errorf("NUMA node %d: no memory", want.ID)
		case len(got.Distances) != len(nodes) || got.Distances[want.ID] != 10:
			t.Errorf("NUMA node %d: distances %v, want one for each of %d nodes, 10 to itself", want.ID, got.Distances, len(nodes))
		}
	}
}

func checkCPUs(t *testing.T, facts *machine.Facts, m *model.Machine) {
	t.Helper()
	byID := map[int]model.CPU{}
	for _, c := range m.CPUs {
		byID[c.ID] = c
	}
	cores := map[model.CoreID]bool{}
	for _, n := range facts.Nodes() {
		for _, threads := range n.Cores {
			siblings := cpuset.New(threads...)
			core := byID[threads[0]].Core
			if core == nil {
				t.Errorf("CPU %d has no core", threads[0])
				continue
			}
			if cores[*core] {
				t.Errorf("core %+v comes twice", *core)
			}
			cores[*core] = true
			for _, id := range threads {
				c := byID[id]
				if !c.Online || c.NUMANode == nil || *c.NUMANode != n.ID || c.L3 == nil || !c.Siblings.Equals(siblings) ||
					c.Core == nil || *c.Core != *core || c.Core.Package != n.Socket {
					t.Errorf("CPU %d: got %+v, want node %d, package %d, threads %s", id, c, n.ID, n.Socket, siblings)
				}
			}
		}
	}
}

func checkFunction(t *testing.T, d machine.Device, m *model.Machine) {
	t.Helper()
	f := m.Function(d.Address)
	if f == nil {
		t.Errorf("%s: function %s is missing", d.Label(), d.Address)
		return
	}
	if f.Class != d.Class {
		t.Errorf("%s: class %#06x, want %#06x", d.Label(), f.Class, d.Class)
	}
	if d.ID != nil && (f.Vendor != d.ID.Vendor || f.Device != d.ID.Device) {
		t.Errorf("%s: %04x:%04x, want %04x:%04x", d.Label(), f.Vendor, f.Device, d.ID.Vendor, d.ID.Device)
	}
	if !sameNode(f.NUMANode, d.NUMA) {
		t.Errorf("%s: NUMA node %s, want %s", d.Label(), node(f.NUMANode), node(d.NUMA))
	}
	if d.Link != nil && (f.Link == nil || f.Link.SpeedMTs != d.Link.SpeedMTs || d.Link.Width != 0 && f.Link.Width != d.Link.Width) {
		t.Errorf("%s: link %+v, want %+v", d.Label(), f.Link, d.Link)
	}
	root := m.RootOf(d.Address)
	if f.Root != d.SysfsRoot || root.Published != d.Published() {
		t.Errorf("%s: root %s, published %v, want %s, published %v", d.Label(), f.Root, root.Published, d.SysfsRoot, d.Published())
	}
	if !root.Published && !strings.Contains(root.Path, "VMBUS") {
		t.Errorf("%s: root at %s, want below a VMBUS", d.Label(), root.Path)
	}
}

func checkNIC(t *testing.T, facts *machine.Facts, at int, m *model.Machine) {
	t.Helper()
	d := facts.NICs[at]
	if slices.ContainsFunc(facts.NICs[:at], func(other machine.Device) bool { return other.RDMA == d.RDMA && other.Address == d.Address }) {
		d.RDMA = "" // one RDMA device serves both ports, and belongs to the first
	}
	found := slices.IndexFunc(m.NICs, func(n model.NIC) bool {
		return n.PCI != nil && *n.PCI == d.Address && (d.Ifname == "" || n.Interface != nil && n.Interface.Name == d.Ifname)
	})
	if found < 0 {
		t.Errorf("%s: no NIC at %s", d.Label(), d.Address)
		return
	}
	n := m.NICs[found]
	if !sameNode(n.NUMANode, d.NUMA) {
		t.Errorf("%s: NUMA node %s, want %s", d.Label(), node(n.NUMANode), node(d.NUMA))
	}
	if d.IBOnly && n.Interface != nil || n.Interface == nil && n.RDMA == nil {
		t.Errorf("%s: interface %+v, RDMA device %+v", d.Label(), n.Interface, n.RDMA)
	}
	if n.Interface != nil {
		checkInterface(t, d, n.Interface)
	}
	if d.RDMA != "" {
		checkRDMA(t, d, n.RDMA)
	}
}

func checkInterface(t *testing.T, d machine.Device, i *model.Interface) {
	t.Helper()
	if d.MTU != nil && *i.MTU != *d.MTU {
		t.Errorf("%s: MTU %d, want %d", d.Label(), *i.MTU, *d.MTU)
	}
	if d.SpeedMbps != nil && (i.SpeedMbps == nil || *i.SpeedMbps != *d.SpeedMbps) {
		t.Errorf("%s: speed is not %d Mbit/s", d.Label(), *d.SpeedMbps)
	}
}

func checkRDMA(t *testing.T, d machine.Device, r *model.RDMADevice) {
	t.Helper()
	switch {
	case r == nil || r.Name != d.RDMA:
		t.Errorf("%s: RDMA device %+v, want %s", d.Label(), r, d.RDMA)
	case r.LinkLayer == nil:
		t.Errorf("%s: no link layer", d.Label())
	case !slices.ContainsFunc(r.CharDevices, func(f string) bool { return strings.HasPrefix(f, "/dev/infiniband/uverbs") }):
		t.Errorf("%s: device files %v, want an uverbs among them", d.Label(), r.CharDevices)
	}
}

func checkRoot(t *testing.T, want machine.RootFacts, m *model.Machine) {
	t.Helper()
	got := m.Root(want.Name)
	switch {
	case got == nil:
		t.Errorf("root %s is missing", want.Name)
	case !sameNode(got.NUMANode, want.NUMA):
		t.Errorf("root %s: NUMA node %s, want %s", want.Name, node(got.NUMANode), node(want.NUMA))
	}
}

func sameNode(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

func node(n *int) string {
	if n == nil {
		return "unknown"
	}
	return strconv.Itoa(*n)
}
