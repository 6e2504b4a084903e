// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
)

// randomMachine makes a machine of any shape: domains, roots that are not
// published, unknown NUMA nodes, several interfaces on one function, hostile
// strings, virtual functions.
func randomMachine(r *rand.Rand) *model.Machine {
	var parts model.Machine
	nodes := 1 + r.IntN(4)
	for id := range nodes {
		cpus := cpuset.New()
		for c := range r.IntN(9) {
			cpu := id*8 + c
			cpus = cpus.Union(cpuset.New(cpu))
			parts.CPUs = append(parts.CPUs, model.CPU{
				ID: cpu, Online: r.IntN(8) > 0, NUMANode: &id, L3: maybe(r, id),
				Core: &model.CoreID{Package: id / 2, Core: c / 2}, Siblings: cpuset.New(cpu, cpu^1),
			})
		}
		parts.NUMANodes = append(parts.NUMANodes, model.NUMANode{ID: id, CPUs: cpus})
	}
	for root := range 1 + r.IntN(5) {
		domain, bus := uint32(r.IntN(2)), uint8(root*16)
		name := fmt.Sprintf("pci%04x:%02x", domain, bus)
		published := r.IntN(3) > 0
		path := "devices/" + name
		parts.Roots = append(parts.Roots, model.PCIRoot{Name: name, Path: path, Published: published})
		for device := range r.IntN(5) {
			node := maybe(r, r.IntN(nodes))
			// A root that is not published is told by the address alone, so
			// its devices sit on its own bus.
			a := model.PCIAddress{Domain: domain, Bus: bus, Device: uint8(device)}
			f := model.PCIFunction{Address: a, Root: name, Class: 0x020000, NUMANode: node, Driver: maybeText(r)}
			if r.IntN(2) == 0 {
				f.Class = 0x030000
				parts.GPUs = append(parts.GPUs, randomGPU(r, a, node, len(parts.GPUs)))
				f.Driver = nil
			} else {
				randomNICs(r, &parts, &f)
			}
			parts.Functions = append(parts.Functions, f)
		}
	}
	m, err := model.New(parts)
	if err != nil {
		panic(err)
	}
	return m
}

func randomGPU(r *rand.Rand, a model.PCIAddress, node *int, index int) model.GPU {
	return model.GPU{
		Index: index, PCI: a, NUMANode: node, ProductName: "NVIDIA H200", UUID: maybeText(r),
		MemoryBytes: ptr.To(uint64(r.IntN(1<<20)) << 20), Architecture: maybeText(r), DriverVersion: ptr.To("580.126.20"),
	}
}

func randomNICs(r *rand.Rand, parts *model.Machine, f *model.PCIFunction) {
	f.VendorName, f.DeviceName = maybeText(r), maybeText(r)
	if r.IntN(3) == 0 {
		f.SubsystemDevice = ptr.To(uint16(r.IntN(1 << 16)))
	}
	if r.IntN(3) == 0 {
		vfs := r.IntN(4)
		f.SRIOV = &model.SRIOV{TotalVFs: max(1, vfs), NumVFs: vfs}
	}
	for port := range 1 + r.IntN(2) {
		n := model.NIC{PCI: &f.Address, NUMANode: f.NUMANode}
		if port > 0 {
			n.Port = ptr.To(fmt.Sprintf("p%d", port))
		}
		if r.IntN(2) == 0 {
			n.RDMA = &model.RDMADevice{Name: fmt.Sprintf("mlx5_%d", len(parts.NICs)), LinkLayer: ptr.To("Ethernet")}
			n.GPUDirect = []*bool{nil, ptr.To(true), ptr.To(false)}[r.IntN(3)]
			n.PairedGPU = []*model.PCIAddress{nil, {Domain: r.Uint32N(1 << 16), Bus: uint8(r.IntN(256))}}[r.IntN(2)]
		}
		if n.RDMA == nil || r.IntN(4) > 0 {
			n.Interface = &model.Interface{
				Name: fmt.Sprintf("eth%d", len(parts.NICs)), MTU: maybe(r, 1500), State: ptr.To("up"), Alias: maybeText(r),
				Kind: nil, SpeedMbps: maybe(r, 400000),
			}
			n.Interface.Programs = maybePrograms(r)
			for i := range r.IntN(6) {
				n.Interface.Addresses = append(n.Interface.Addresses,
					netip.MustParsePrefix(fmt.Sprintf("10.%d.0.%d/24", i, r.IntN(255))))
			}
		}
		if n.Interface != nil && r.IntN(4) == 0 {
			n.Share = []*model.Share{
				{Type: model.ShareMacvlan, Slots: 1},
				{Type: model.ShareIPvlan, Mode: "l3s", Flag: "private", Slots: 9, Bandwidth: 100e9},
				{Type: model.ShareIPvlan, Flag: "vepa", Slots: 1024},
				{Type: model.ShareVLAN, FirstVLAN: 100, LastVLAN: 199, Slots: 2, Bandwidth: 1e6},
			}[r.IntN(4)]
		}
		if r.IntN(2) == 0 {
			n.Attributes = map[string]model.Attribute{}
			for i := range r.IntN(40) {
				n.Attributes[fmt.Sprintf("example.com/a%d", i)] = []model.Attribute{
					model.TextAttribute("text"), model.NumberAttribute(int64(i)), model.FlagAttribute(i%2 == 0),
				}[i%3]
			}
		}
		parts.NICs = append(parts.NICs, n)
	}
}

func maybe(r *rand.Rand, v int) *int {
	if r.IntN(4) == 0 {
		return nil
	}
	return &v
}

func maybeText(r *rand.Rand) *string {
	return []*string{
		nil, ptr.To("mlx5_core"), ptr.To(strings.Repeat("ü", 40)), ptr.To("bad\xffbytes"),
		ptr.To("BF4 [BlueField-4 integrated network controller] " + strings.Repeat("x", 40)),
	}[r.IntN(5)]
}

func maybePrograms(r *rand.Rand) *model.Programs {
	pieces := []string{"", "a", "from-container", "cil_from_netdev.o:[from-netdev]", "a,b", ",", "ü\xff", strings.Repeat("n", 255), strings.Repeat("ü", 40)}
	if r.IntN(3) == 0 {
		return nil
	}
	p := &model.Programs{Attached: r.IntN(2) == 0}
	for range r.IntN(40) {
		p.Filters = append(p.Filters, pieces[r.IntN(len(pieces))])
		p.TCX = append(p.TCX, pieces[r.IntN(len(pieces))])
	}
	return p
}
