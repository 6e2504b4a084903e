// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
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
