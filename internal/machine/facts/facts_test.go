// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func shipped(t *testing.T, name string) *Facts {
	t.Helper()
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestShippedMachinesParse(t *testing.T) {
	want := []string{"a3-ultragpu-8g", "aws-p4d.24xlarge", "azure-nd96isr-h100-v5", "egx-t4-cx5", "gcp-ct6e-standard-4t"}
	if diff := cmp.Diff(want, Names()); diff != "" {
		t.Fatal(diff)
	}
	for _, name := range Names() {
		if f := shipped(t, name); f.Name != name {
			t.Errorf("%s.yaml names itself %s", name, f.Name)
		}
	}
}

func TestCommonValuesAndOwnValues(t *testing.T) {
	a3 := shipped(t, "a3-ultragpu-8g")
	g := a3.GPUs[3]
	if g.Address.String() != "0000:97:00.0" || g.Model != "NVIDIA H200" || *g.MemoryMiB != 143771 ||
		*g.Link != (Link{32000, 16}) || *g.ID != (PCIID{0x10de, 0x2335}) || *g.NUMA != 0 || !g.Published() {
		t.Errorf("gpu-3 reads %+v", g)
	}
	if n := a3.NICs[0]; *n.SpeedMbps != 400000 || n.RDMA != "mlx5_0" || n.Ifname != "gpu0rdma0" || n.Class != 0x020000 {
		t.Errorf("mlx5_0 reads %+v", n)
	}
	azure := shipped(t, "azure-nd96isr-h100-v5")
	if g := azure.GPUs[5]; g.Published() || g.SysfsRoot != "pci000a:00" {
		t.Errorf("azure gpu-5 hangs from %q, published %v", g.SysfsRoot, g.Published())
	}
	if ena := shipped(t, "aws-p4d.24xlarge").NICs[2]; ena.RDMA != "" || ena.Ifname != "ens65" {
		t.Errorf("ens65 reads %+v", ena)
	}
}

const small = `name: m
arch: x86_64
cpu: {sockets: 1, numa_nodes: 1, cpus: 4, smt: 2}
numa:
  - {id: 0, cpus: "0-3"}
pcie_roots:
  - {root: "pci0000:10", numa: 0, switch_up: "0000:11:00.0"}
gpus:
  devices:
    - {name: gpu-0, bdf: "0000:13:00.0", root: "pci0000:10", numa: 0}
nics:
  devices:
    - {rdma: mlx5_0, ifname: a, bdf: "0000:14:00.0", root: "pci0000:10", numa: -1, link: "8 GT/s x8"}
`

func TestKubernetes(t *testing.T) {
	f, err := Open("gcp-ct6e-standard-4t")
	if err != nil {
		t.Fatal(err)
	}
	want := KubernetesFacts{
		Labels: map[string]string{
			"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "4x4",
		},
		ExtendedResources: map[string]int{"google.com/tpu": 4},
	}
	if !reflect.DeepEqual(f.Kubernetes, want) {
		t.Errorf("got %+v, want %+v", f.Kubernetes, want)
	}
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct{ old, new, want string }{
		"unknown field":        {"name: gpu-0,", "name: gpu-0, colour: red,", `m.yaml:10: gpus.devices[0].colour: is no field`},
		"unknown section":      {"arch: x86_64", "arch: x86_64\nfpgas: []", `m.yaml:3: fpgas: is no field`},
		"key twice":            {"arch: x86_64", "arch: x86_64\nname: n", `m.yaml:3: name: is given twice, first on line 1`},
		"duplicate address":    {"0000:14:00.0", "0000:13:00.0", `m.yaml:13: nics mlx5_0: address 0000:13:00.0 is taken by gpus gpu-0 on line 10`},
		"switch address":       {"0000:14:00.0", "0000:11:00.0", `m.yaml:13: nics mlx5_0: address 0000:11:00.0 is taken by switch_up of pci0000:10 on line 7`},
		"no such node":         {`"pci0000:10", numa: 0}`, `"pci0000:10", numa: 7}`, `m.yaml:10: gpus gpu-0: NUMA node 7 does not exist; there are 0`},
		"root's node":          {`numa: 0, switch_up`, `numa: 1, switch_up`, `m.yaml:7: root pci0000:10: NUMA node 1 does not exist`},
		"malformed address":    {"0000:14:00.0", "14:00.0", `m.yaml:13: nics.devices[0].bdf: "14:00.0": want domain:bus:device.function`},
		"upper-case address":   {"0000:14:00.0", "0000:1A:00.0", `m.yaml:13: nics.devices[0].bdf`},
		"malformed cpulist":    {`"0-3"`, `"0..3"`, `m.yaml:5: numa[0].cpus: "0..3": want a list of numbers`},
		"endless cpulist":      {`"0-3"`, `"0-99999"`, `m.yaml:5: numa[0].cpus`},
		"malformed link":       {"8 GT/s x8", "fast", `m.yaml:13: nics.devices[0].link: "fast": want a PCIe speed and width`},
		"malformed class":      {"name: gpu-0,", "name: gpu-0, class: 0x0302,", `m.yaml:10: gpus.devices[0].class`},
		"malformed id":         {"name: gpu-0,", "name: gpu-0, pci_id: nvidia,", `m.yaml:10: gpus.devices[0].pci_id`},
		"unlisted root":        {`"0000:13:00.0", root: "pci0000:10"`, `"0000:13:00.0", root: "pci0000:0f"`, `m.yaml:10: gpus gpu-0: root pci0000:0f is not listed`},
		"other domain":         {`"0000:13:00.0"`, `"0001:13:00.0"`, `m.yaml:10: gpus gpu-0: 0001:13:00.0 cannot hang from pci0000:10`},
		"bus below root":       {`"0000:13:00.0"`, `"0000:03:00.0"`, `m.yaml:10: gpus gpu-0: 0000:03:00.0 cannot hang from pci0000:10`},
		"root between":         {"pcie_roots:\n", "pcie_roots:\n  - {root: \"pci0000:14\"}\n", `m.yaml:14: nics mlx5_0: 0000:14:00.0 cannot hang from pci0000:10: root pci0000:14 lies between`},
		"no root":              {`"0000:13:00.0", root: "pci0000:10",`, `"0000:13:00.0",`, `m.yaml:10: gpus gpu-0: says no root`},
		"contradictory cpus":   {"cpus: 4", "cpus: 6", `m.yaml:3: cpu.cpus: says 6, but the NUMA nodes list 4`},
		"half a core":          {`cpus: 4, smt: 2}`, `cpus: 4, smt: 3}`, `m.yaml:5: numa: the 4 CPUs of NUMA node 0 are no whole cores of 3 threads`},
		"nodes miscounted":     {"numa_nodes: 1", "numa_nodes: 2", `m.yaml:3: cpu.numa_nodes: says 2, but numa and cpu.memory_only_nodes list 1`},
		"overlapping cpus":     {"pcie_roots:\n", "  - {id: 1, cpus: \"3-4\"}\npcie_roots:\n", `m.yaml:6: numa: CPUs 3 of NUMA node 1 also belong to node 0`},
		"node twice":           {"pcie_roots:\n", "  - {id: 0, cpus: \"4\"}\npcie_roots:\n", `m.yaml:6: numa[1]: NUMA node 0 is listed twice, first on line 5`},
		"memory node's cpus":   {"smt: 2}", `smt: 2, memory_only_nodes: "0-1"}`, `m.yaml:5: numa[0]: NUMA node 0 has CPUs 0-3, but cpu.memory_only_nodes`},
		"socket beyond":        {`{id: 0,`, `{id: 0, socket: 1,`, `m.yaml:5: numa: NUMA node 0 is on socket 1`},
		"snc":                  {"smt: 2}", "smt: 2, snc: true}", `m.yaml:3: cpu.snc: says several NUMA nodes per socket`},
		"root twice":           {"gpus:\n", "  - {root: \"pci0000:10\"}\ngpus:\n", `m.yaml:8: pcie_roots[1]: root pci0000:10 is listed twice`},
		"no address":           {` bdf: "0000:13:00.0",`, ``, `m.yaml:10: gpus.devices[0]: gpu-0 has no bdf`},
		"no name":              {"name: gpu-0, ", "", `m.yaml:10: gpus.devices[0]: has no name`},
		"ib_only with ifname":  {"ifname: a,", "ifname: a, ib_only: true,", `m.yaml:13: nics mlx5_0: is ib_only`},
		"name is a path":       {"ifname: a,", "ifname: ../a,", `m.yaml:13: nics.devices[0].ifname`},
		"loopback's name":      {"ifname: a,", "ifname: lo,", `m.yaml:13: nics.devices[0].ifname: lo is the loopback`},
		"long ifname":          {"ifname: a,", "ifname: sixteen-letters-, ", `m.yaml:13: nics.devices[0].ifname: "sixteen-letters-": an interface's name has at most 15`},
		"switch on last bus":   {`"0000:11:00.0"`, `"0000:ff:00.0"`, `m.yaml:7: root pci0000:10: switch_up 0000:ff:00.0 cannot lie`},
		"root: both ways":      {`numa: -1,`, `numa: -1, root: null, sysfs_root: "pci0000:10",`, `is given twice`},
		"alias":                {`bdf: "0000:13:00.0"`, `bdf: &a "0000:13:00.0", src: *a, model: *a`, `m.yaml:10: gpus.devices[0].model: is an alias`},
		"arch":                 {"x86_64", "sparc", `m.yaml:1: arch: "sparc": want x86_64 or aarch64`},
		"not YAML":             {"name: m", "name: [", `m.yaml:`},
		"two documents":        {"nics:", "---\nnics:", `holds more than one document`},
		"label's name":         {"gpus:\n", "kubernetes: {labels: {a b: c}}\ngpus:\n", `m.yaml:8: kubernetes.labels.a b: is no label's name`},
		"label's value":        {"gpus:\n", "kubernetes: {labels: {a/b: c d}}\ngpus:\n", `m.yaml:8: kubernetes.labels.a/b: "c d": is no label's value`},
		"a list of labels":     {"gpus:\n", "kubernetes: {labels: [a]}\ngpus:\n", `m.yaml:8: kubernetes.labels: want a mapping`},
		"own resource":         {"gpus:\n", "kubernetes: {extended_resources: {cpu: 4}}\ngpus:\n", `m.yaml:8: kubernetes.extended_resources.cpu: is no extended resource`},
		"half a TPU":           {"gpus:\n", "kubernetes: {extended_resources: {google.com/tpu: 0.5}}\ngpus:\n", `google.com/tpu: "0.5": want a whole number`},
		"sysfs root disagrees": {`numa: -1,`, `numa: -1, sysfs_root: "pci0000:14",`, `m.yaml:13: nics mlx5_0: hangs from sysfs_root pci0000:14, but its root is pci0000:10`},
	}
	if _, err := Parse([]byte(small), "m.yaml"); err != nil {
		t.Fatalf("the unchanged file: %v", err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(small, tt.old, tt.new, 1)
			if text == small {
				t.Fatalf("nothing replaced: %q", tt.old)
			}
			f, err := Parse([]byte(text), "m.yaml")
			if err == nil {
				t.Fatalf("accepted: %+v", f)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	text := strings.NewReplacer("x86_64", "sparc", "0000:14:00.0", "0000:13:00.0", "cpus: 4", "cpus: 5").Replace(small)
	_, err := Parse([]byte(text), "m.yaml")
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three lines, got: %v", err)
	}
}

func TestTwoInterfacesOnOneFunction(t *testing.T) {
	text := small + `    - {rdma: mlx5_0, ifname: b, bdf: "0000:14:00.0", root: "pci0000:10"}` + "\n"
	if _, err := Parse([]byte(text), "m.yaml"); err != nil {
		t.Error(err)
	}
	text = small + `    - {rdma: mlx5_1, bdf: "0000:14:00.0", root: "pci0000:10"}` + "\n"
	if _, err := Parse([]byte(text), "m.yaml"); err == nil {
		t.Error("a second function without an interface name was accepted at the same address")
	}
}

func TestNodes(t *testing.T) {
	nodes := shipped(t, "a3-ultragpu-8g").Nodes()
	if len(nodes) != 2 || nodes[1].Socket != 1 || len(nodes[1].Cores) != 56 {
		t.Fatalf("a3: %+v", nodes)
	}
	if diff := cmp.Diff([]int{57, 169}, nodes[1].Cores[1]); diff != "" {
		t.Error(diff)
	}
	f, err := Parse([]byte(`name: m
arch: aarch64
cpu: {sockets: 2, numa_nodes: 6, cpus: null, smt: 2, memory_only_nodes: "2-5"}
numa: [{id: 0, cpus: null}, {id: 1}]
`), "m.yaml")
	if err != nil {
		t.Fatal(err)
	}
	nodes = f.Nodes()
	if got := nodes[1].CPUs.String() + " " + nodes[0].CPUs.String(); got != "1,3 0,2" || !nodes[1].Assumed {
		t.Errorf("assumed CPUs are %s", got)
	}
	if !nodes[2].MemoryOnly || nodes[3].Socket != 0 || nodes[4].Socket != 1 {
		t.Errorf("memory-only nodes: %+v", nodes[2:])
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, name := range Names() {
		source, err := ReadSource(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source.Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		f, err := Parse(data, "m.yaml")
		if err == nil {
			f.Nodes()
		}
	})
}
