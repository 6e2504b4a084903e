// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/inventory/inventorytest"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

// missionClaims are the two claims of the mission on an A3 Ultra.
func missionClaims() map[topoview.DeviceID][]topoview.Holder {
	aligned := topoview.Holder{Namespace: "default", Claim: "aligned-resource-claim", Pods: []string{"aligned-gpu-nic-cpu-pod"}}
	misaligned := topoview.Holder{Namespace: "default", Claim: "misaligned-resource-claim", Pods: []string{"misaligned-gpu-nic-cpu-pod"}}
	cpus := func(h topoview.Holder, list ...int) topoview.Holder {
		h.CPUs, h.CPUCount = cpuset.New(list...), len(list)
		return h
	}
	training := topoview.Holder{Namespace: "team-vision", Claim: "ddp-worker-0-h100-4gpu-4nic", Pods: []string{"ddp-worker-0"}, CPUCount: 24}
	notebook := topoview.Holder{Namespace: "default", Claim: "notebook", Pods: []string{"notebook-0"}}
	return map[topoview.DeviceID][]topoview.Holder{
		{Driver: "gpu.nvidia.com", Name: "gpu-4"}:     {notebook}, // strands a NIC
		{Driver: "gpu.nvidia.com", Name: "gpu-0"}:     {aligned},
		{Driver: "dra.net", Name: "pci-0000-91-00-0"}: {aligned},
		{Driver: "gpu.nvidia.com", Name: "gpu-2"}:     {misaligned},
		{Driver: "dra.net", Name: "pci-0000-98-00-0"}: {misaligned},
		{Driver: "dra.cpu", Name: "cpudevnuma000"}:    {cpus(aligned, 1, 2, 113, 114)},
		{Driver: "dra.cpu", Name: "cpudevnuma001"}:    {cpus(misaligned, 57, 58, 169, 170), training},
		{Driver: "gpu.nvidia.com", Name: "gpu-6"}:     {training},
		{Driver: "gpu.nvidia.com", Name: "gpu-7"}:     {training},
		{Driver: "dra.net", Name: "pci-0000-cd-00-0"}: {training},
		{Driver: "dra.net", Name: "pci-0000-ce-00-0"}: {training},
	}
}

func draw(t testing.TB, topology *topoview.Topology) string {
	t.Helper()
	var out bytes.Buffer
	if err := svg.Topology(&out, topology); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestGolden(t *testing.T) {
	held := inventorytest.Machine(t, "a3-ultragpu-8g")
	for i := range held.GPUs {
		text := "bochs-display as " + held.GPUs[i].ProductName
		held.GPUs[i].Simulated = &text
	}
	pictures := map[string]*topoview.Topology{
		"a3-ultragpu-8g-held": topoview.Build(held, topoview.Options{
			Name: "gpu-node-1", Source: "the ResourceSlices and ResourceClaims of node gpu-node-1",
			Holders: missionClaims(), HoldersKnown: true, Reserved: cpuset.New(0, 112, 56, 168)}),
	}
	for _, file := range []string{"azure-nd96isr-h100-v5", "gcp-ct6e-standard-4t", "../testdata/thirty-two-nics.yaml", "../testdata/memory-only-nodes.yaml", "../testdata/four-nodes.yaml"} {
		pictures[strings.TrimSuffix(filepath.Base(file), ".yaml")] = topoview.Build(inventorytest.Machine(t, file), topoview.Options{Source: "a test"})
	}
	for name, topology := range pictures {
		t.Run(name, func(t *testing.T) {
			golden.Assert(t, filepath.Join("testdata", name+".svg"), draw(t, topology))
		})
	}
}
