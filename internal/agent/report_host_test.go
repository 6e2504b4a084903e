// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/agent/hostreport"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// gpuHost is a machine with a GPU and an InfiniBand NIC.
func gpuHost(t *testing.T) *model.Machine {
	t.Helper()
	const root = "pci0000:91"
	gpu, nic, layer := model.PCIAddress{Bus: 0x91}, model.PCIAddress{Bus: 0x92}, "InfiniBand"
	m, err := model.New(model.Machine{
		Roots: []model.PCIRoot{{Name: root, Path: "devices/" + root}},
		Functions: []model.PCIFunction{
			{Address: gpu, Root: root, Vendor: 0x10de, Class: 0x030200},
			{Address: nic, Root: root, Vendor: 0x15b3, Class: 0x020700},
		},
		NICs: []model.NIC{{PCI: &nic, RDMA: &model.RDMADevice{Name: "mlx5_0", LinkLayer: &layer}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// startedOn is an agent that has looked at a host whose files are below dir, as reportHost
// has it do before anything is published.
func startedOn(t *testing.T, dir string) *agent {
	t.Helper()
	a := &agent{
		Options: Options{SysfsRoot: filepath.Join(dir, "sys"), ProcRoot: filepath.Join(dir, "procfs"), NRISocket: filepath.Join(dir, "nri/nri.sock")},
		merged:  &publish.MergedMachine{}, metrics: metrics.New(), offer: hostreport.NewOffer(true),
	}
	a.merged.Describe = a.offer.Describe
	if err := a.merged.Update(gpuHost(t), nil); err != nil {
		t.Fatal(err)
	}
	a.lookAtHost(t.Context())
	a.merged.Redescribe()
	return a
}

// said is what the slice would say of the NIC.
func (a *agent) said() string {
	devices := slicecodec.Encode(a.merged.Current(), slicecodec.DriverNet, slicecodec.CPUOptions{})
	d := slicecodec.Taint(devices, a.offer.AddFaults(nil), resourceapi.DeviceTaintEffectNoExecute)[0]
	text := "gpuDirect absent"
	if v := d.Attributes["plumbline.dev/gpuDirect"].BoolValue; v != nil {
		text = fmt.Sprintf("gpuDirect %t", *v)
	}
	for _, taint := range d.Taints {
		text += fmt.Sprintf(", %s:%s", taint.Key, taint.Effect)
	}
	return text
}

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatChecksFindIsPublished breaks a host and mends it, with an agent that is started
// anew in between: what it publishes first is what the one before did.
func TestWhatChecksFindIsPublished(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"procfs/sys/kernel/osrelease":                    "6.12.0\n",
		"procfs/driver/nvidia/version":                   "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20\n",
		"sys/class/infiniband/mlx5_0/ports/1/state":      "1: DOWN\n",
		"sys/class/infiniband/mlx5_0/ports/1/phys_state": "2: Polling\n",
	}
	writeAll(t, dir, files)
	for link, to := range map[string]string{"procfs/self": "4711", "procfs/1/root": filepath.Join(dir, "root")} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	const broken, mended = "gpuDirect true, plumbline.dev/rdma-port-down:NoSchedule", "gpuDirect false"
	for _, start := range []string{"first", "again"} {
		if got := startedOn(t, dir).said(); got != broken {
			t.Errorf("started the %s time on a broken host, the slice says %q, want %q", start, got, broken)
		}
	}
	a := startedOn(t, dir)
	writeAll(t, dir, map[string]string{
		"procfs/driver/nvidia/version":                   "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.126.20\n",
		"sys/class/infiniband/mlx5_0/ports/1/state":      "4: ACTIVE\n",
		"sys/class/infiniband/mlx5_0/ports/1/phys_state": "5: LinkUp\n",
	})
	var got []string
	for range 2 {
		a.lookAtHost(t.Context())
		a.merged.Redescribe()
		got = append(got, a.said())
	}
	if want := []string{broken, mended}; !slices.Equal(got, want) {
		t.Errorf("after one look and two, the slice says %q, want %q", got, want)
	}
}
