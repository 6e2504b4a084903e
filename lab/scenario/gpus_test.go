// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func TestAsPrinted(t *testing.T) {
	var printed resourceapi.Device
	if err := yaml.UnmarshalStrict(tutorialGPU, &printed); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(d *resourceapi.Device)
		wrong  string
	}{
		"the same": {func(*resourceapi.Device) {}, ""},
		"a board of one's own, and its NUMA node": {func(d *resourceapi.Device) {
			d.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To("GPU-1")}
			d.Attributes[slicecodec.AttrNUMANode] = resourceapi.DeviceAttribute{IntValue: ptr.To[int64](0)}
		}, ""},
		"another root": {func(d *resourceapi.Device) {
			d.Attributes[slicecodec.AttrPCIeRoot] = resourceapi.DeviceAttribute{StringValue: ptr.To("pci0000:93")}
		}, "pcieRoot"},
		"a version as a string": {func(d *resourceapi.Device) {
			d.Attributes["driverVersion"] = resourceapi.DeviceAttribute{StringValue: ptr.To("580.126.20")}
		}, "driverVersion"},
		"no brand": {func(d *resourceapi.Device) { delete(d.Attributes, "brand") }, "brand absent"},
		"one attribute more": {func(d *resourceapi.Device) {
			d.Attributes["index"] = resourceapi.DeviceAttribute{IntValue: ptr.To[int64](0)}
		}, "index"},
		"less memory": {func(d *resourceapi.Device) {
			d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse("80Gi")}
		}, "memory"},
		"under another name": {func(d *resourceapi.Device) { d.Name = "gpu-9" }, "no slice"},
	} {
		t.Run(name, func(t *testing.T) {
			device := *printed.DeepCopy()
			tc.change(&device)
			v := asPrinted([]resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{device}}}}, printed)
			if v.OK != (tc.wrong == "") || !strings.Contains(v.Why, tc.wrong) {
				t.Errorf("%v: %s; want what names %q", v.OK, v.Why, tc.wrong)
			}
		})
	}
}
