// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/topoview"
)

// podSys is /sys as a pod on an A3 Ultra sees it that has two NICs: all of the
// hardware, and of the interfaces those of its own network namespace. RDMA
// devices show all the same, as in the kernel's shared mode.
type podSys struct{ fs.FS }

func (s podSys) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.FS, name)
	if name != "class/net" {
		return entries, err
	}
	var own []fs.DirEntry
	for _, e := range entries {
		if e.Name() == "gpu0rdma0" || e.Name() == "gpu5rdma0" {
			own = append(own, e)
		}
	}
	return own, err
}

func (s podSys) ReadLink(name string) (string, error)   { return fs.ReadLink(s.FS, name) }
func (s podSys) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(s.FS, name) }

const podStatus = "Name:\tbash\nCpus_allowed_list:\t1-2,113-114\nMems_allowed_list:\t0\n"

func lookAroundPod(t *testing.T, root fstest.MapFS) *topoview.Pod {
	t.Helper()
	file, err := machine.Open("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	p, problems, err := lookAround(context.Background(), podSys{file.Tree}, root, "trainer-0")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return p
}

func TestInPod(t *testing.T) {
	p := lookAroundPod(t, fstest.MapFS{
		"proc/self/status":       {Data: []byte(podStatus)},
		"dev/infiniband/uverbs0": {},
		"dev/infiniband/rdma_cm": {},
		"dev/nvidia0":            {},
		"dev/nvidiactl":          {},
		"proc/driver/nvidia/gpus/0000:8f:00.0/information": {Data: []byte("Model: \t\t NVIDIA H200\nDevice Minor: \t 0\n")},
		"proc/driver/nvidia/gpus/0000:c4:00.0/information": {Data: []byte("Model: \t\t NVIDIA H200\nDevice Minor: \t 4\n")},
	})
	var out bytes.Buffer
	if err := topoview.PodText(&out, p); err != nil {
		t.Fatal(err)
	}
	golden(t, "in-pod.txt", out.String())
}

// changedSys is a tree some of whose attributes are others.
type changedSys struct {
	podSys
	change func(name, text string) string
}

func (s changedSys) Open(name string) (fs.File, error) {
	text, err := fs.ReadFile(s.FS, name)
	if err != nil {
		return s.podSys.Open(name)
	}
	return fstest.MapFS{"x": {Data: []byte(s.change(name, string(text)))}}.Open("x")
}

// The state of a link is that of the interface that the kernel names for a port, as
// far as it is the pod's.
func TestInPodPorts(t *testing.T) {
	file, err := machine.Open("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		suffix, text string
		want         string
	}{
		"up":                           {"none", "", "mlx5_0 port 1 ==> gpu0rdma0 (Up)\n"},
		"link down":                    {"net/gpu0rdma0/operstate", "lowerlayerdown", "mlx5_0 port 1 ==> gpu0rdma0 (Down)\n"},
		"link unknown":                 {"net/gpu0rdma0/operstate", "", "mlx5_0 port 1 ==> gpu0rdma0\n"},
		"port down":                    {"mlx5_0/ports/1/state", "1: DOWN", "mlx5_0 port 1 ==> gpu0rdma0 (Up), port DOWN\n"},
		"port unknown":                 {"mlx5_0/ports/1/state", "", "mlx5_0 port 1 ==> gpu0rdma0 (Up)\n"},
		"a name of another namespace":  {"mlx5_0/ports/1/gid_attrs/ndevs/0", "gpu5rdma0", "mlx5_0 port 1 ==> gpu0rdma0 (Up)\n"},
		"no interface in any GID":      {"mlx5_0/ports/1/gid_attrs/ndevs/0", "", "mlx5_0 port 1 ==> gpu0rdma0 (Up)\n"},
		"another RDMA device's is its": {"none", "", "mlx5_5 port 1 ==> gpu5rdma0 (Up)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			sys := changedSys{podSys{file.Tree}, func(name, text string) string {
				if strings.HasSuffix(name, tt.suffix) {
					return tt.text
				}
				return text
			}}
			p, problems, err := lookAround(context.Background(), sys, fstest.MapFS{}, "trainer-0")
			if err != nil || len(problems) > 0 {
				t.Fatal(err, problems)
			}
			var out bytes.Buffer
			if err := topoview.PodText(&out, p); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "\n"+tt.want) {
				t.Errorf("want %q:\n%s", tt.want, out.String())
			}
		})
	}
}

// With nothing but /sys mounted the interfaces still have their places.
func TestInPodWithSysAlone(t *testing.T) {
	p := lookAroundPod(t, nil)
	var found []string
	for _, d := range p.Devices {
		found = append(found, d.Interface+" "+d.RDMA+" "+d.Address+" "+d.Root)
	}
	if want := "gpu0rdma0 mlx5_0 0000:91:00.0 pci0000:8c, gpu5rdma0 mlx5_5 0000:c7:00.0 pci0000:c1"; strings.Join(found, ", ") != want || p.CPUs != "" {
		t.Errorf("%q with CPUs %q, want %s", found, p.CPUs, want)
	}
}
