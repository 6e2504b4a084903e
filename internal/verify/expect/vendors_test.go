// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// What a claim promises of any driver's device is read as topologies read it.
func TestClaimsOfOtherDrivers(t *testing.T) {
	const bus = "resource.kubernetes.io/pciBusID"
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	for name, tt := range map[string]struct {
		driver, device string
		attributes     map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
		kind           Kind
		address        string
	}{
		"a virtual function": {"sriovnetwork.k8snetworkplumbingwg.io", "0000-06-00-2",
			map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{bus: text("0000:06:00.2"), "dra.net/numaNode": {IntValue: ptr.To[int64](-1)}}, NIC, "0000:06:00.2"},
		"AMD's":           {"gpu.amd.com", "gpu-1-128", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": text("amdgpu"), bus: text("0000:05:00.0")}, GPU, "0000:05:00.0"},
		"AMD's partition": {"gpu.amd.com", "gpu-1-129", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": text("amdgpu-partition"), bus: text("0000:05:00.0")}, "", "0000:05:00.0"},
		"NVIDIA's slice":  {"gpu.nvidia.com", "gpu-0-mig-19-0-1", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": text("mig"), bus: text("0000:8f:00.0")}, GPU, "0000:8f:00.0"},
		"Intel's":         {"gpu.intel.com", "0000-b3-00-0-0x56c0", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"pciAddress": text("0000:b3:00.0")}, GPU, "0000:b3:00.0"},
		"Gaudi":           {"gaudi.intel.com", "x", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{bus: text("0000:33:00.0")}, GPU, "0000:33:00.0"},
		"anybody's NIC":   {"fabric.example.com", "p", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"ifName": text("ens1"), bus: text("0000:b4:00.0")}, NIC, "0000:b4:00.0"},
		"a PCI function":  {"qat.intel.com", "q", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{bus: text("0000:6b:00.1")}, PCI, "0000:6b:00.1"},
		"a channel":       {"compute-domain.nvidia.com", "channel-0", nil, "", "<nil>"},
	} {
		claim := &resourceapi.ResourceClaim{}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: tt.driver, Pool: "n", Device: tt.device}},
		}}
		d := ClaimOf(claim, Published{{tt.driver, "n", tt.device}: tt.attributes}).Devices[0]
		address := "<nil>"
		if d.PCI != nil {
			address = d.PCI.String()
		}
		if d.Kind != tt.kind || address != tt.address || d.NUMANode != nil {
			t.Errorf("%s: %q at %s on node %v, want %q at %s", name, d.Kind, address, d.NUMANode, tt.kind, tt.address)
		}
	}
}

// The slices written after the source of AMD's driver tell verify which GPU each is. A
// partition, and what is for virtual machines, have other files than the GPU: their place
// is known, and no file is expected.
func TestSlicesOfAMD(t *testing.T) {
	text, err := os.ReadFile("../../cli/testdata/vendors/amd-0.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var published resourceapi.ResourceSlice
	if err := yaml.UnmarshalStrict([]byte(strings.Split(string(text), "\n---\n")[1]), &published); err != nil {
		t.Fatal(err)
	}
	var got []string
	claim := &resourceapi.ResourceClaim{}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, d := range published.Spec.Devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "r", Driver: published.Spec.Driver, Pool: published.Spec.Pool.Name, Device: d.Name,
		})
	}
	for _, d := range ClaimOf(claim, PublishedIn([]resourceapi.ResourceSlice{published})).Devices {
		got = append(got, fmt.Sprintf("%s %q %s", d.Name, d.Kind, d.PCI))
	}
	want := []string{
		`gpu-1-128 "gpu" 0000:05:00.0`,
		`gpu-9-136 "gpu" 0000:26:00.0`,
		`gpu-vfio-1 "" 0000:26:00.0`,
		`gpu-17-144 "gpu" 0000:85:00.0`,
		`gpu-25-152 "" 0000:a6:00.0`,
		`gpu-26-153 "" 0000:a6:00.0`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
