// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
)

// The GPUs of a claim are those whose driver says where they are, whoever serves them.
func TestGPUsOfAClaim(t *testing.T) {
	address := func(text string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &text} }
	slice := func(driver string, devices ...resourceapi.Device) resourceapi.ResourceSlice {
		return resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: "node-1", ResourceSliceCount: 1}, Devices: devices}}
	}
	device := func(name, kind, at string) resourceapi.Device {
		d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
		if kind != "" {
			d.Attributes["type"] = address(kind)
		}
		if at != "" {
			d.Attributes["resource.kubernetes.io/pciBusID"] = address(at)
		}
		return d
	}
	published := []resourceapi.ResourceSlice{
		slice("gpu.nvidia.com", device("gpu-0", "gpu", "0000:8f:00.0"), device("gpu-1", "gpu", "0000:90:00.0"), device("gpu-2", "gpu", "")),
		slice("dra.net", device("pci-0000-91-00-0", "", "0000:91:00.0")),
	}
	c := &resourceapi.ResourceClaim{}
	if got := gpusOf(c, published); got != nil {
		t.Errorf("GPUs %v of a claim that is not allocated", got)
	}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for driver, devices := range map[string][]string{"gpu.nvidia.com": {"gpu-1", "gpu-2", "gpu-1", "gpu-9"}, "dra.net": {"pci-0000-91-00-0"}} {
		for _, d := range devices {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: "node-1", Device: d})
		}
	}
	want, err := model.ParsePCIAddress("0000:90:00.0")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]model.PCIAddress{want}, gpusOf(c, published)); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
}
