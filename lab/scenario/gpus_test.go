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

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func TestAsPrinted(t *testing.T) {
	var printed resourceapi.Device
	if err := yaml.UnmarshalStrict(tutorialGPU, &printed); err != nil {
		t.Fatal(err)
	}
	facts, err := machine.OpenFacts("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := *printed.Attributes[slicecodec.AttrNUMANode].IntValue, int64(*facts.ModelGPUs()[0].NUMANode); got != want {
		t.Fatalf("numaNode is %d, and %d in the machine file", got, want)
	}
	slice := resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: slicecodec.DriverGPU, NodeName: ptr.To("n"), Devices: []resourceapi.Device{printed},
		Pool: resourceapi.ResourcePool{Name: "n", Generation: 1, ResourceSliceCount: 1},
	}}
	for name, tc := range map[string]struct {
		change func(s *resourceapi.ResourceSliceSpec, d *resourceapi.Device)
		wrong  string
	}{
		"the same": {func(*resourceapi.ResourceSliceSpec, *resourceapi.Device) {}, ""},
		"a board of one's own": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To("GPU-1")}
		}, ""},
		"after another start": {func(s *resourceapi.ResourceSliceSpec, _ *resourceapi.Device) { s.Pool.Generation = 2 }, ""},
		"no uuid":             {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) { delete(d.Attributes, "uuid") }, "attributes uuid string absent"},
		"another NUMA node": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.Attributes[slicecodec.AttrNUMANode] = resourceapi.DeviceAttribute{IntValue: ptr.To[int64](1)}
		}, "numaNode int 1, printed 0"},
		"no NUMA node": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			delete(d.Attributes, slicecodec.AttrNUMANode)
		}, "numaNode int absent"},
		"another root": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.Attributes[slicecodec.AttrPCIeRoot] = resourceapi.DeviceAttribute{StringValue: ptr.To("pci0000:93")}
		}, "pcieRoot string pci0000:93, printed pci0000:8c"},
		"a version as a string": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.Attributes["driverVersion"] = resourceapi.DeviceAttribute{StringValue: ptr.To("580.126.20")}
		}, "driverVersion string 580.126.20 is not on the page"},
		"no brand": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) { delete(d.Attributes, "brand") }, "attributes brand string absent, printed Nvidia"},
		"one attribute more": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.Attributes["index"] = resourceapi.DeviceAttribute{IntValue: ptr.To[int64](0)}
		}, "attributes index int 0 is not on the page"},
		"less memory": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse("80Gi")}
		}, "capacity memory value 80Gi, printed 143771Mi"},
		"one capacity more": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.Capacity["shares"] = resourceapi.DeviceCapacity{Value: resource.MustParse("4")}
		}, "capacity shares value 4 is not on the page"},
		"a taint": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.Taints = []resourceapi.DeviceTaint{{Key: "gpu.nvidia.com/xid", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}, "taints[0] key gpu.nvidia.com/xid"},
		"counters": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0"}}
		}, "consumesCounters[0] counterSet gpu-0"},
		"in several allocations": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) {
			d.AllowMultipleAllocations = ptr.To(true)
		}, "allowMultipleAllocations true"},
		"under another name": {func(_ *resourceapi.ResourceSliceSpec, d *resourceapi.Device) { d.Name = "gpu-9" }, "no slice"},
		"another pool":       {func(s *resourceapi.ResourceSliceSpec, _ *resourceapi.Device) { s.Pool.Name = "p" }, "pool name p, printed n"},
		"one slice of two":   {func(s *resourceapi.ResourceSliceSpec, _ *resourceapi.Device) { s.Pool.ResourceSliceCount = 2 }, "resourceSliceCount 2, printed 1"},
		"no generation":      {func(s *resourceapi.ResourceSliceSpec, _ *resourceapi.Device) { s.Pool.Generation = 0 }, "pool generation 0, printed 1"},
		"on all nodes":       {func(s *resourceapi.ResourceSliceSpec, _ *resourceapi.Device) { s.AllNodes = ptr.To(true) }, "allNodes true"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := *slice.DeepCopy()
			tc.change(&changed.Spec, &changed.Spec.Devices[0])
			v := asPrinted([]resourceapi.ResourceSlice{changed}, "n", printed)
			if v.OK != (tc.wrong == "") || !strings.Contains(v.Why, tc.wrong) {
				t.Errorf("%v: %s; want what names %q", v.OK, v.Why, tc.wrong)
			}
		})
	}
	if v := asPrinted([]resourceapi.ResourceSlice{slice, slice}, "n", printed); v.OK || v.Why != "2 slices, printed one" {
		t.Errorf("two slices: %v: %s", v.OK, v.Why)
	}
}
