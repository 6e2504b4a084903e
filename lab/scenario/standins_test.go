// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

func TestStandInCounts(t *testing.T) {
	device := func(simulated bool) resourceapi.Device {
		return resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"plumbline.dev/simulated": {BoolValue: &simulated}, "productName": {StringValue: ptr.To("NVIDIA H200")},
		}}
	}
	got := standInCounts([]resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", Devices: []resourceapi.Device{device(true), device(true), device(false)},
	}}})
	if len(got) != 1 || got["bochs-display as NVIDIA H200"] != 2 {
		t.Errorf("counts %v, want two bochs-display as NVIDIA H200", got)
	}
}
