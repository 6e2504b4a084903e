// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

// nvidiaDevice is one of NVIDIA's driver, at a slot of a root; more are attributes.
func nvidiaDevice(name string, slot int, gib int64, more ...string) resourceapi.Device {
	d := resourceapi.Device{
		Name: name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"productName":                     {StringValue: ptr.To("NVIDIA H200")},
			"resource.kubernetes.io/pciBusID": {StringValue: ptr.To(fmt.Sprintf("0000:%x:00.0", 0x8f+slot))},
			"resource.kubernetes.io/pcieRoot": {StringValue: ptr.To(fmt.Sprintf("pci0000:%x", 0x8c+slot/2))},
			"resource.kubernetes.io/numaNode": {IntValue: ptr.To[int64](0)},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: *resource.NewQuantity(gib<<30, resource.BinarySI)}},
	}
	for pair := range slices.Chunk(more, 2) {
		d.Attributes[resourceapi.QualifiedName(pair[0])] = resourceapi.DeviceAttribute{StringValue: &pair[1]}
	}
	return d
}

// splitNode has four GPUs: gpu-0 is split up on demand, that of slot 1 was split up
// before, gpu-2 is offered in shares, and gpu-3 as a whole.
func splitNode() Cluster {
	mig := func(name, profile string, slot int, gib int64, more ...string) resourceapi.Device {
		return nvidiaDevice(name, slot, gib, append(more, "type", "mig", "profile", profile, "parentUUID", fmt.Sprintf("GPU-%d", slot))...)
	}
	whole := func(i int) resourceapi.Device {
		return nvidiaDevice(fmt.Sprintf("gpu-%d", i), i, 141, "type", "gpu", "uuid", fmt.Sprintf("GPU-%d", i))
	}
	devices := []resourceapi.Device{
		whole(0), mig("gpu-0-mig-1g18gb-19-0", "1g.18gb", 0, 16), mig("gpu-0-mig-1g18gb-19-1", "1g.18gb", 0, 16),
		mig("gpu-0-mig-1g18gb-19-10", "1g.18gb", 0, 16), mig("gpu-0-mig-3g71gb-9-4", "3g.71gb", 0, 70),
		mig("gpu-1-mig-4g71gb-5-0", "4g.71gb", 1, 70, "uuid", "MIG-1"), mig("gpu-1-mig-3g71gb-9-4", "3g.71gb", 1, 70, "uuid", "MIG-2"),
		whole(2), whole(3),
	}
	for i := range devices {
		if devices[i].Name == "gpu-2" {
			devices[i].AllowMultipleAllocations = ptr.To(true)
		}
	}
	claim := func(name string, pods []string, share string, held ...string) resourceapi.ResourceClaim {
		c := resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		c.Status.Allocation = &resourceapi.AllocationResult{}
		for _, device := range held {
			r := resourceapi.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Pool: "n1", Device: device}
			if share != "" {
				r.ShareID = ptr.To(types.UID(share))
			}
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, r)
		}
		for _, pod := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod})
		}
		return c
	}
	return Cluster{
		Slices: []resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.nvidia.com", NodeName: ptr.To("n1"), Pool: resourceapi.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 1}, Devices: devices,
		}}},
		Claims: []resourceapi.ResourceClaim{
			claim("infer-0", []string{"infer-0"}, "", "gpu-0-mig-1g18gb-19-10"),
			claim("infer-1", []string{"infer-1"}, "", "gpu-0-mig-3g71gb-9-4"),
			claim("batch", []string{"batch"}, "", "gpu-1-mig-3g71gb-9-4"),
			claim("share-0", []string{"notebook-0"}, "a", "gpu-2"),
			claim("share-1", []string{"notebook-1"}, "b", "gpu-2"),
			claim("slices", []string{"web-0", "web-1", "web-2"}, "", "gpu-3"),
		},
	}
}

// MIG devices are drawn in their GPU, and who shares one is said.
func TestParts(t *testing.T) {
	view, err := splitNode().Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	topology := view.Topology()
	var text, picture bytes.Buffer
	if err := topoview.Text(&text, topology, topoview.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/parts.txt", text.String())
	if err := svg.Topology(&picture, topology); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/parts.svg", picture.String())
	for _, name := range []string{"gpu-0-mig-1g18gb-19-10", "gpu-0-mig-3g71gb-9-4", "gpu-1-mig-4g71gb-5-0", "gpu-1-mig-3g71gb-9-4"} {
		if n := strings.Count(picture.String(), `data-part="`+name+`"`); n != 1 {
			t.Errorf("%s is drawn %d times", name, n)
		}
	}
}

// A GPU of which a claim has a part is not free, one in shares is, and one that is
// offered in parts only is none of those that can be.
func TestPartsAndFreeGPUs(t *testing.T) {
	c := splitNode()
	view, err := c.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	if got := view.Topology().Capacity.GPUs; got != (topoview.Count{Free: 1, Total: 3}) {
		t.Errorf("%+v, want gpu-2 alone free of 3", got)
	}
	if len(view.Left) != 1 || !strings.Contains(view.Left[0], "offered in parts only, and not counted: 1") {
		t.Errorf("left out: %q", view.Left)
	}
	c.Claims = nil
	if view, err = c.Node("n1"); err != nil {
		t.Fatal(err)
	}
	if got := view.Topology().Capacity.GPUs; got != (topoview.Count{Free: 3, Total: 3}) {
		t.Errorf("without claims %+v", got)
	}
}
