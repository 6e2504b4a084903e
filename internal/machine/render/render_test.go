// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/machine/facts"
	"plumbline.dev/plumbline/internal/machine/systree"
)

// everyFacts calls f for each shipped machine and each of ../testdata/facts.
func everyFacts(t *testing.T, f func(t *testing.T, facts *facts.Facts)) {
	t.Helper()
	files, err := filepath.Glob("../testdata/facts/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test machines: %v", err)
	}
	for _, name := range append(facts.Names(), files...) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			opened, err := facts.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			f(t, opened)
		})
	}
}

func rendered(t *testing.T, f *facts.Facts) *systree.Tree {
	t.Helper()
	tree, err := Render(f)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestRenderHasNoDanglingLinks(t *testing.T) {
	everyFacts(t, func(t *testing.T, f *facts.Facts) {
		tree := rendered(t, f)
		for _, e := range tree.Entries() {
			if e.Mode != fs.ModeSymlink {
				continue
			}
			if _, err := tree.Stat(e.Path); err != nil {
				t.Errorf("%s leads to %s: %v", e.Path, e.Text, err)
			}
		}
	})
}

func TestRenderedAttributes(t *testing.T) {
	tests := []struct{ machine, path, want string }{
		{"a3-ultragpu-8g", "devices/pci0000:8c/0000:8c:00.0/0000:8d:00.0/0000:8e:00.0/0000:8f:00.0/class", "0x030200"},
		{"a3-ultragpu-8g", "devices/pci0000:8c/0000:8c:00.0/0000:8d:00.0/0000:8e:02.0/0000:91:00.0/net/gpu0rdma0/speed", "400000"},
		{"a3-ultragpu-8g", "bus/pci/devices/0000:cd:00.0/infiniband/mlx5_6/ports/1/link_layer", "Ethernet"},
		{"a3-ultragpu-8g", "bus/pci/devices/0000:c5:00.0/local_cpulist", "56-111,168-223"},
		{"a3-ultragpu-8g", "devices/system/cpu/cpu57/topology/core_cpus_list", "57,169"},
		{"a3-ultragpu-8g", "devices/system/cpu/cpu57/topology/core_id", "1"},
		{"a3-ultragpu-8g", "devices/system/cpu/cpu57/topology/physical_package_id", "1"},
		{"aws-p4d.24xlarge", "devices/pci0000:10/0000:10:1b.0/infiniband/rdmap16s27/node_type", "7: unspecified"},
		{"azure-nd96isr-h100-v5", "class/net/ibP257p0s0/type", "32"},
		{"azure-nd96isr-h100-v5", "class/infiniband/mlx5_7/ports/1/link_layer", "InfiniBand"},
		{"egx-t4-cx5", "devices/pci0000:36/0000:36:00.0/0000:37:00.1/net/ens2f1/operstate", "up"},
		{"gcp-ct6e-standard-4t", "devices/pci0000:00/0000:00:0d.0/net/eth1/mtu", "8896"},
		{"../testdata/facts/gb200.yaml", "devices/pci0008:00/0008:00:01.0/0008:01:00.0/vendor", "0x10de"},
		{"../testdata/facts/gb200.yaml", "devices/system/node/has_cpu", "0-1"},
		{"../testdata/facts/gb200.yaml", "class/net/enP2p3s0f1/speed", "200000"},
		{"../testdata/facts/two-ports.yaml", "class/net/portb/dev_port", "1"},
		{"../testdata/facts/two-ports.yaml", "class/net/onboard/device/numa_node", "-1"},
	}
	for _, tt := range tests {
		f, err := facts.Open(tt.machine)
		if err != nil {
			t.Fatal(err)
		}
		got, err := fs.ReadFile(rendered(t, f), tt.path)
		if err != nil {
			t.Errorf("%s: %v", tt.machine, err)
		} else if string(got) != tt.want+"\n" {
			t.Errorf("%s: %s = %q, want %q", tt.machine, tt.path, got, tt.want)
		}
	}
}

// FuzzRender looks for facts that are accepted and then do not render.
func FuzzRender(f *testing.F) {
	files, err := filepath.Glob("../testdata/facts/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(facts.Names(), files...) {
		source, err := facts.ReadSource(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source.Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		accepted, err := facts.Parse(data, "m.yaml")
		if err != nil {
			return
		}
		if _, err := Render(accepted); err != nil && !strings.Contains(err.Error(), "no free address for a bridge") {
			t.Errorf("accepted, yet %v", err)
		}
	})
}
