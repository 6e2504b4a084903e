// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"os"
	"path/filepath"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"plumbline.dev/plumbline/internal/machine"
)

// What two GPUs have in common is read where the kernel says it.
func TestTopology(t *testing.T) {
	lib := a3(t)
	file, err := machine.Open("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := file.Tree.WriteTo(root); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NVML_STANDIN_SYS", filepath.Join(root, "sys"))
	for _, tt := range []struct {
		first, second int
		want          gonvml.GpuTopologyLevel
	}{
		{0, 0, gonvml.TOPOLOGY_INTERNAL},
		{0, 1, gonvml.TOPOLOGY_SINGLE},
		{0, 2, gonvml.TOPOLOGY_NODE},
		{0, 4, gonvml.TOPOLOGY_SYSTEM},
		{7, 0, gonvml.TOPOLOGY_SYSTEM},
	} {
		level, ret := byIndex(t, lib, tt.first).GetTopologyCommonAncestor(byIndex(t, lib, tt.second))
		if ret != gonvml.SUCCESS || level != tt.want {
			t.Errorf("GPUs %d and %d: %d %v, want %d", tt.first, tt.second, level, ret, tt.want)
		}
	}
}

// Paths of /sys, and not how far numbers are apart, say how two GPUs reach each other.
func TestTopologyOfPaths(t *testing.T) {
	lib := a3(t)
	for name, tt := range map[string]struct {
		first, second string
		nodes         [2]string
		want          gonvml.GpuTopologyLevel
	}{
		"below one switch":            {"pci0000:8c/0000:8c:01.0/0000:8d:00.0/0000:8e:00.0", "pci0000:8c/0000:8c:01.0/0000:8d:00.0/0000:8e:01.0", [2]string{"0", "0"}, gonvml.TOPOLOGY_SINGLE},
		"below a switch of a switch":  {"pci0000:8c/0000:8c:01.0/0000:8d:00.0/0000:8e:00.0", "pci0000:8c/0000:8c:01.0/0000:8d:00.0/0000:8e:01.0/0000:8f:00.0/0000:90:00.0", [2]string{"0", "0"}, gonvml.TOPOLOGY_MULTIPLE},
		"of two root ports":           {"pci0000:8c/0000:8c:01.0", "pci0000:8c/0000:8c:02.0", [2]string{"0", "0"}, gonvml.TOPOLOGY_HOSTBRIDGE},
		"of two host bridges":         {"pci0000:8c", "pci0000:90", [2]string{"1", "1"}, gonvml.TOPOLOGY_NODE},
		"of two nodes":                {"pci0000:8c", "pci0000:90", [2]string{"0", "1"}, gonvml.TOPOLOGY_SYSTEM},
		"of nodes that are not known": {"pci0000:8c", "pci0000:90", [2]string{"-1", "-1"}, gonvml.TOPOLOGY_SYSTEM},
	} {
		t.Run(name, func(t *testing.T) {
			sys := t.TempDir()
			t.Setenv("NVML_STANDIN_SYS", sys)
			plug := func(address, below, node string) {
				function := filepath.Join(sys, "devices", below, address)
				links := filepath.Join(sys, "bus", "pci", "devices")
				for _, folder := range []string{function, links} {
					if err := os.MkdirAll(folder, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(function, "numa_node"), []byte(node+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(function, filepath.Join(links, address)); err != nil {
					t.Fatal(err)
				}
			}
			plug("0000:8f:00.0", tt.first, tt.nodes[0])
			plug("0000:90:00.0", tt.second, tt.nodes[1])
			level, ret := byIndex(t, lib, 0).GetTopologyCommonAncestor(byIndex(t, lib, 1))
			if ret != gonvml.SUCCESS || level != tt.want {
				t.Errorf("%d %v, want %d", level, ret, tt.want)
			}
		})
	}
}

// Where the kernel has no such functions nothing is made up.
func TestTopologyThatNobodyTells(t *testing.T) {
	lib := a3(t)
	t.Setenv("NVML_STANDIN_SYS", t.TempDir())
	if level, ret := byIndex(t, lib, 0).GetTopologyCommonAncestor(byIndex(t, lib, 1)); ret != gonvml.ERROR_NOT_SUPPORTED {
		t.Errorf("%d %v", level, ret)
	}
}
