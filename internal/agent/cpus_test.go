// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/publish"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func TestParseCPUMode(t *testing.T) {
	for words, want := range map[[2]string]slicecodec.CPUMode{
		{"grouped", "numanode"}:    slicecodec.PerNUMANode,
		{"grouped", "socket"}:      slicecodec.PerSocket,
		{"grouped", "machine"}:     slicecodec.WholeMachine,
		{"individual", "numanode"}: slicecodec.SingleCPUs,
	} {
		if got, err := ParseCPUMode(words[0], words[1]); err != nil || got != want {
			t.Errorf("%v: got %q, %v, want %q", words, got, err, want)
		}
	}
	for words, want := range map[[2]string]string{
		{"single", "numanode"}: `--cpu-device-mode="single": want grouped or individual`,
		{"grouped", "die"}:     `--group-by="die": want numanode, socket, machine`,
	} {
		if _, err := ParseCPUMode(words[0], words[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", words, err, want)
		}
	}
}

// CPUs can be put beside a NIC of another claim of the pod, if that is prepared.
func TestBesides(t *testing.T) {
	records, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range map[string]string{"mine": "a", "others": "b"} {
		r := driver.Record{
			Version: driver.RecordVersion, Driver: slicecodec.DriverNet, BootID: "boot", Claim: agenttest.ClaimFor(name, "").ClaimRef,
			Pods: agenttest.ClaimFor(pod, "").Pods, Devices: []driver.DeviceRecord{{Device: "nic-of-" + name, Plan: []byte("{}")}},
		}
		if err := records.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	c := agenttest.ClaimFor("a", "cpudevmachine")
	for mode, want := range map[slicecodec.CPUMode]string{
		slicecodec.WholeMachine: "[{dra.net nic-of-mine}]", slicecodec.PerSocket: "[{dra.net nic-of-mine}]", slicecodec.PerNUMANode: "[]",
	} {
		if got := fmt.Sprint(besides(mode, records)(c).Beside); got != want {
			t.Errorf("mode %s: got %s, want %s", mode, got, want)
		}
	}
}

// CPUs can be put beside a GPU of NVIDIA's own driver, which says where it is.
func TestLocateOthersDevices(t *testing.T) {
	address, bus := model.PCIAddress{Bus: 0x91}, "resource.kubernetes.io/pciBusID"
	m, err := model.New(model.Machine{
		Roots:     []model.PCIRoot{{Name: "pci0000:90", Published: true}},
		Functions: []model.PCIFunction{{Address: address, Root: "pci0000:90", NUMANode: ptr.To(1)}},
		NUMANodes: []model.NUMANode{{ID: 0}, {ID: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	slice := &resourceapi.ResourceSlice{}
	slice.Name, slice.Spec.NodeName, slice.Spec.Driver = "gpus", ptr.To("node"), slicecodec.DriverGPU
	slice.Spec.Pool = resourceapi.ResourcePool{Name: "node", ResourceSliceCount: 1}
	slice.Spec.Devices = []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		resourceapi.QualifiedName(bus): {StringValue: ptr.To(address.String())},
	}}}
	client := fake.NewClientset(slice)
	results := []resourceapi.DeviceRequestAllocationResult{
		{Request: "cpus", Driver: slicecodec.DriverCPU, Pool: "node", Device: "cpudevmachine"},
		{Request: "gpu", Driver: slicecodec.DriverGPU, Pool: "node", Device: "gpu-0"},
		{Request: "gpu", Driver: slicecodec.DriverGPU, Pool: "node", Device: "gpu-1"}, // not published
	}
	object := &resourceapi.ResourceClaim{}
	for name, test := range map[string]struct {
		mode    slicecodec.CPUMode
		results []resourceapi.DeviceRequestAllocationResult
		drivers []string
		want    string
		asked   bool
	}{
		"of another driver":         {slicecodec.WholeMachine, results, []string{slicecodec.DriverCPU}, "map[{gpu.nvidia.com gpu-0}:1]", true},
		"one node is all there is":  {slicecodec.PerNUMANode, results, []string{slicecodec.DriverCPU}, "map[]", false},
		"the claim has CPUs alone":  {slicecodec.PerSocket, results[:1], []string{slicecodec.DriverCPU}, "map[]", false},
		"of a driver of this agent": {slicecodec.PerSocket, results, []string{slicecodec.DriverCPU, slicecodec.DriverGPU}, "map[]", false},
	} {
		client.ClearActions()
		a := &agent{Options: Options{NodeName: "node", Drivers: test.drivers}, client: client, merged: &publish.MergedMachine{}}
		a.CPUs.Mode = test.mode
		if err := a.merged.Update(m, nil); err != nil {
			t.Fatal(err)
		}
		object.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: test.results}}
		got := a.locate(t.Context(), driver.Claim{Object: object})
		if fmt.Sprint(got.Nodes) != test.want || test.asked != (len(client.Actions()) > 0) {
			t.Errorf("%s: got %v after %d questions, want %s", name, got.Nodes, len(client.Actions()), test.want)
		}
	}
	if got := (&agent{Options: Options{CPUs: slicecodec.CPUOptions{Mode: slicecodec.PerSocket}}}).locate(t.Context(), driver.Claim{}); got.Nodes != nil {
		t.Errorf("a claim that nobody has read: %v", got.Nodes)
	}
}
