// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview_test

import (
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/inventory/inventorytest"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
)

// held makes one claim hold devices, named "gpu-0", "pci-…" or "cpudevnuma000=8".
func held(devices ...string) topoview.Options {
	o := topoview.Options{HoldersKnown: true, Holders: map[topoview.DeviceID][]topoview.Holder{}}
	for _, d := range devices {
		h := topoview.Holder{Namespace: "default", Claim: "train"}
		id := topoview.DeviceID{Driver: slicecodec.DriverNet, Name: d}
		switch {
		case strings.HasPrefix(d, "gpu-"):
			id.Driver = slicecodec.DriverGPU
		case strings.HasPrefix(d, "cpu"):
			id.Driver = slicecodec.DriverCPU
			h.CPUCount = 112
		}
		o.Holders[id] = append(o.Holders[id], h)
	}
	return o
}

func TestFreeCapacity(t *testing.T) {
	const a3, p4d, azure = "a3-ultragpu-8g", "aws-p4d.24xlarge", "azure-nd96isr-h100-v5"
	for _, tc := range []struct {
		name, machine  string
		o              topoview.Options
		want, stranded string
	}{
		{"nobody", a3, held(),
			"8 more GPU+NIC pairs by PCIe root, 4 more groups of 2, 2 more groups of 4, 1 more group of 8 over NUMA nodes", ""},
		{"a pair across roots strands the partners of both", a3, held("gpu-0", "pci-0000-99-00-0"),
			"6 more GPU+NIC pairs by PCIe root, 3 more groups of 2, 1 more group of 4, no group of 8 over NUMA nodes",
			"pci-0000-92-00-0, gpu-3"},
		{"GPUs without NICs", a3, held("gpu-0", "gpu-1"),
			"6 more GPU+NIC pairs by PCIe root, 3 more groups of 2, 1 more group of 4, no group of 8 over NUMA nodes",
			"pci-0000-91-00-0, pci-0000-92-00-0"},
		// Two GPUs a NIC is how the machine is built: that strands nothing.
		{"twice as many GPUs as NICs", p4d, held(), "4 more GPU+NIC pairs by PCIe root, 2 more groups of 2, 1 more group of 4 over NUMA nodes", ""},
		{"the NIC is gone", p4d, held("gpu-0", "pci-0000-10-1b-0"),
			"3 more GPU+NIC pairs by PCIe root, 1 more group of 2, no group of 4 over NUMA nodes", "gpu-1"},
		{"by node", azure, held("gpu-0"),
			"7 more GPU+NIC pairs by NUMA node, 3 more groups of 2, 1 more group of 4, no group of 8 over NUMA nodes", "pci-0104-00-00-0"},
		{"no CPU is left", a3, held("cpudevnuma000"),
			"8 more GPU+NIC pairs by PCIe root, 4 more groups of 2, 2 more groups of 4, 1 more group of 8 over NUMA nodes",
			""},
		{"no GPUs", "gcp-ct6e-standard-4t", held(), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topology := topoview.Build(inventorytest.Machine(t, tc.machine), tc.o)
			if got := topology.Capacity.Text(true); got != tc.want {
				t.Errorf("room for %s, want %s", got, tc.want)
			}
			if note := "NUMA node 0 has 4 free GPUs and no free CPU"; strings.Contains(strings.Join(topology.Notes, "\n"), note) != (tc.name == "no CPU is left") {
				t.Errorf("notes %q", topology.Notes)
			}
			if got := topology.Capacity.StrandedText(); got != tc.stranded {
				t.Errorf("stranded %s, want %s", got, tc.stranded)
			}
		})
	}
}

// A tainted device is nobody's partner, and a shared one is everybody's.
func TestFreeCapacityOfTaintedAndShared(t *testing.T) {
	o := held("gpu-0", "pci-0000-91-00-0")
	o.Published = map[topoview.DeviceID]topoview.Published{
		{Driver: slicecodec.DriverNet, Name: "pci-0000-91-00-0"}: {Shared: true},
		{Driver: slicecodec.DriverNet, Name: "pci-0000-92-00-0"}: {Taint: "no carrier"},
	}
	topology := topoview.Build(inventorytest.Machine(t, "a3-ultragpu-8g"), o)
	if r := topology.Capacity; r.Pairs.Free != 7 || r.NICs.Free != 7 || r.Pairs.Total != 8 || len(r.Stranded) != 0 {
		t.Errorf("%+v, want 7 of 8 pairs", r)
	}
	out := text(t, topology, topoview.TextOptions{})
	if !strings.Contains(out, "tainted: no carrier") {
		t.Errorf("the taint is not shown:\n%s", out)
	}
}

// CPUs are held whatever way they are published, and drawn with the core they
// are of.
func TestHoldsOfOtherGroups(t *testing.T) {
	m := inventorytest.Machine(t, "a3-ultragpu-8g")
	holder := func(n int, cpus ...int) topoview.Holder {
		return topoview.Holder{Namespace: "default", Claim: "train", CPUCount: n, CPUs: cpuset.New(cpus...)}
	}
	for _, tc := range []struct {
		name    string
		groups  []slicecodec.CPUGroup
		holders map[string]topoview.Holder
		want    []topoview.CPUHold
	}{
		{"a socket, CPUs known",
			[]slicecodec.CPUGroup{{Device: "cpudevsocket000", Socket: ptr.To(0), Count: 112, CPUs: ptr.To(m.NUMANodes[0].CPUs)}},
			map[string]topoview.Holder{"cpudevsocket000": holder(2, 3, 115)},
			[]topoview.CPUHold{{Claim: "A", Device: "cpudevsocket000", Count: 2, CPUs: "3,115"}}},
		{"single CPUs",
			[]slicecodec.CPUGroup{
				{Device: "cpudev003", NUMANode: ptr.To(0), Count: 1, CPUs: ptr.To(cpuset.New(3))},
				{Device: "cpudev115", NUMANode: ptr.To(0), Count: 1, CPUs: ptr.To(cpuset.New(115))},
			},
			map[string]topoview.Holder{"cpudev003": holder(1), "cpudev115": holder(1)},
			[]topoview.CPUHold{{Claim: "A", Count: 2, CPUs: "3,115"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := topoview.Options{CPUGroups: tc.groups, Reserved: cpuset.New(0, 112), Holders: map[topoview.DeviceID][]topoview.Holder{}}
			for name, h := range tc.holders {
				o.Holders[topoview.DeviceID{Driver: slicecodec.DriverCPU, Name: name}] = []topoview.Holder{h}
			}
			node := topoview.Build(m, o).Sockets[0].Nodes[0]
			if len(node.Holds) != len(tc.want) || node.Holds[0] != tc.want[0] {
				t.Errorf("holds %+v, want %+v", node.Holds, tc.want)
			}
			if core := node.Cores[3]; len(core.Claims) != 2 || core.Claims[0] != "A" || core.Claims[1] != "A" {
				t.Errorf("core 3 is %+v, want both threads held", core)
			}
			if core := node.Cores[0]; len(core.Reserved) != 2 || node.CPUsFree() != 108 {
				t.Errorf("core 0 is %+v with %d CPUs free, want it reserved", core, node.CPUsFree())
			}
		})
	}
}
