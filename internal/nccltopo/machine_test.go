// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltopo_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
	"plumbline.dev/plumbline/internal/nccltopo"
)

var equalCPUs = cmp.Comparer(func(a, b cpuset.CPUSet) bool { return a.Equals(b) })

// machines calls f with each machine that there is a file of, and the addresses of its
// GPUs and NICs.
func machines(t *testing.T, f func(t *testing.T, m *model.Machine, gpus, nics []model.PCIAddress)) {
	t.Helper()
	more, err := filepath.Glob("../machine/testdata/facts/*.yaml")
	if err != nil || len(more) == 0 {
		t.Fatalf("no test machines: %v", err)
	}
	for _, name := range append(machine.Names(), more...) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			m, gpus, nics := scan(t, name)
			f(t, m, gpus, nics)
		})
	}
}

func scan(t *testing.T, name string) (m *model.Machine, gpus, nics []model.PCIAddress) {
	t.Helper()
	facts, err := machine.OpenFacts(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := machine.Render(facts)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err = inventory.Scan(context.Background(), inventory.Sources{Sys: tree}, inventory.Options{Name: facts.Name, Architecture: facts.Arch})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range facts.GPUs {
		gpus = append(gpus, g.Address)
	}
	for i := range m.NICs {
		if n := &m.NICs[i]; n.PCI != nil {
			n.PairedGPU = facts.PairedGPU(*n.PCI)
			nics = append(nics, *n.PCI)
		}
	}
	return m, gpus, nics
}

func decode(t *testing.T, data []byte) *nccltopo.Topology {
	t.Helper()
	topology, err := nccltopo.Decode(data)
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return topology
}

// The file of a whole machine says of GPUs and NICs what the model says.
func TestRoundTripOfMachines(t *testing.T) {
	machines(t, func(t *testing.T, m *model.Machine, gpus, nics []model.PCIAddress) {
		made := nccltopo.FromMachine(m, slices.Concat(gpus, nics))
		text := made.Encode()
		read := decode(t, text)
		if diff := cmp.Diff(made, read, equalCPUs); diff != "" {
			t.Fatalf("read back (-made +read):\n%s", diff)
		}
		slices.Reverse(gpus)
		slices.Reverse(nics)
		if again := nccltopo.FromMachine(m, slices.Concat(nics, gpus)).Encode(); string(again) != string(text) {
			t.Errorf("devices in another order make another file:\n%s", cmp.Diff(string(text), string(again)))
		}
		pairs := map[[2]model.PCIAddress]*model.PCIAddress{}
		for _, p := range read.Pairs() {
			pairs[[2]model.PCIAddress{p.GPU, p.NIC}] = p.Switch
		}
		for _, gpu := range gpus {
			for _, nic := range nics {
				checkPair(t, m, gpu, nic, pairs)
			}
		}
	})
}

// checkPair compares what a file says of a GPU and a NIC with the model.
func checkPair(t *testing.T, m *model.Machine, gpu, nic model.PCIAddress, pairs map[[2]model.PCIAddress]*model.PCIAddress) {
	t.Helper()
	near, paired := pairs[[2]model.PCIAddress{gpu, nic}]
	at := slices.IndexFunc(m.NICs, func(n model.NIC) bool { return n.PCI != nil && *n.PCI == nic })
	class := affinity.Between(m, affinity.Place{PCI: &gpu}, affinity.OfNIC(m.NICs[at]))
	belongs := m.NICs[at].PairedGPU != nil && *m.NICs[at].PairedGPU == gpu
	switch {
	case belongs && len(m.Path(nic)) <= 2 && len(m.Path(gpu)) <= 2:
		if near == nil || m.Function(*near) != nil {
			t.Errorf("%s and %s belong together, and have no switch of their own", gpu, nic)
		}
	// Of the bridges above a device NCCL takes every other one, so that it sees no switch
	// above two whose depths differ by one; of hardware none do, of a test's machine some.
	case class == affinity.PIX && near == nil && len(m.Path(gpu)) == len(m.Path(nic)):
		t.Errorf("%s and %s are below one switch, the file does not say so", gpu, nic)
	case near != nil && class != affinity.PIX && class != affinity.PXB:
		t.Errorf("%s and %s are %s, the file has them below %s", gpu, nic, class, near)
	case paired && !class.SharesNode():
		t.Errorf("%s and %s are %s, the file has them on one NUMA node", gpu, nic, class)
	}
}

// Azure's own file is where the pairs of its machine are from: ours has the same.
func TestPairsOfAzure(t *testing.T) {
	m, gpus, nics := scan(t, "azure-nd96isr-h100-v5")
	data, err := os.ReadFile("testdata/azure-nd96isr-h100-v5.pairs")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	text := nccltopo.FromMachine(m, slices.Concat(gpus, nics)).Encode()
	golden.Assert(t, "testdata/azure-nd96isr-h100-v5.xml", string(text))
	var got []string
	pairs := decode(t, text).Pairs()
	for _, p := range pairs {
		if p.Switch == nil {
			t.Errorf("%s and %s have no switch", p.GPU, p.NIC)
		}
		got = append(got, fmt.Sprintf("%d %s %s", *p.NUMANode, p.GPU, p.NIC))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs (-Azure's +ours):\n%s", diff)
	}
	for nic, gpu := range nccltopo.OneToOne(pairs) {
		if !slices.ContainsFunc(want, func(line string) bool { return strings.HasSuffix(line, fmt.Sprintf(" %s %s", gpu, nic)) }) {
			t.Errorf("%s belongs to %s", nic, gpu)
		}
	}
}

// GPUs that NVLink-C2C joins to their CPU, as on GB200, have no switch above them and a NIC:
// each NIC is as near to all GPUs of its NUMA node, and none is its own.
func TestNoPairsOfC2C(t *testing.T) {
	data, err := os.ReadFile("testdata/gb200-c2c.xml")
	if err != nil {
		t.Fatal(err)
	}
	topology := decode(t, data)
	gpus := 0
	for i := range topology.CPUs {
		for _, f := range topology.CPUs[i].Functions {
			if f.IsGPU() {
				gpus++
				if f.GPU == nil || !f.GPU.C2C {
					t.Errorf("GPU %s is not joined by NVLink-C2C", f.Address)
				}
			}
		}
	}
	pairs := topology.Pairs()
	if gpus != 4 || len(pairs) != 2*2*2 {
		t.Errorf("%d GPUs, %d pairs, want 4 with the two NICs of their NUMA nodes", gpus, len(pairs))
	}
	for _, p := range pairs {
		if node := int(p.GPU.Domain >> 4); p.Switch != nil || p.NUMANode == nil || *p.NUMANode != node || int(p.NIC.Domain>>4) != node {
			t.Errorf("%s and %s have node %v and switch %v, want a node alone", p.GPU, p.NIC, p.NUMANode, p.Switch)
		}
	}
	if own := nccltopo.OneToOne(pairs); len(own) > 0 {
		t.Errorf("GPUs of NICs: %v, want none", own)
	}
}

// The file of a claim has the claim's devices, what is above them, and no more.
func TestFileOfAClaim(t *testing.T) {
	m, gpus, nics := scan(t, "a3-ultragpu-8g")
	stranger := model.PCIAddress{Domain: 7}
	golden.Assert(t, "testdata/a3-ultragpu-8g-two-pairs.xml", string(
		nccltopo.FromMachine(m, []model.PCIAddress{gpus[0], nics[0], gpus[7], nics[7], stranger}).Encode()))
	azure, gpus, nics := scan(t, "azure-nd96isr-h100-v5")
	golden.Assert(t, "testdata/azure-gpu-with-a-strange-nic.xml", string(nccltopo.FromMachine(azure, []model.PCIAddress{gpus[0], nics[1]}).Encode()))
}

// A Data Direct function is where NCCL looks for the NIC's transfers.
func TestDataDirect(t *testing.T) {
	address := func(bus uint8) model.PCIAddress { return model.PCIAddress{Bus: bus} }
	function := func(bus uint8, root string, parent *uint8, class uint32) model.PCIFunction {
		f := model.PCIFunction{Address: address(bus), Root: root, Class: class, Link: &model.PCILink{SpeedMTs: 2500, MaxSpeedMTs: 64000 >> (bus & 1), MaxWidth: 16}}
		if parent != nil {
			f.Parent = ptr.To(address(*parent))
		}
		return f
	}
	m, err := model.New(model.Machine{
		Architecture: "aarch64",
		NUMANodes:    []model.NUMANode{{ID: 0, CPUs: cpuset.New(0, 33)}},
		Roots:        []model.PCIRoot{{Name: "pci0000:00", Published: true}, {Name: "pci0000:10", Published: true}},
		Functions: []model.PCIFunction{
			function(1, "pci0000:00", nil, 0x020700),
			function(0x10, "pci0000:10", nil, 0x060400), function(0x12, "pci0000:10", ptr.To(uint8(0x10)), 0x060400),
			function(0x14, "pci0000:10", ptr.To(uint8(0x12)), 0x060400), function(0x15, "pci0000:10", ptr.To(uint8(0x14)), 0x030200),
			function(0x16, "pci0000:10", ptr.To(uint8(0x12)), 0x060400), function(0x17, "pci0000:10", ptr.To(uint8(0x16)), 0x080100),
		},
		NICs: []model.NIC{{PCI: ptr.To(address(1)), DataDirect: ptr.To(address(0x17))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/data-direct.xml", string(nccltopo.FromMachine(m, []model.PCIAddress{address(1), address(0x15)}).Encode()))
}
