// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"bytes"
	"os"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/topoview"
	"plumbline.dev/plumbline/internal/topoview/svg"
)

// GPUs for virtual machines are drawn as that, and are none that a pod could have.
func TestVFIO(t *testing.T) {
	text, err := os.ReadFile("testdata/vfio.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var s resourceapi.ResourceSlice
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		t.Fatal(err)
	}
	claim := func(name, device string) resourceapi.ResourceClaim {
		c := resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.nvidia.com", Pool: "n1", Device: device}},
		}}
		c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name}}
		return c
	}
	c := Cluster{Slices: []resourceapi.ResourceSlice{s}, Claims: []resourceapi.ResourceClaim{claim("train-0", "gpu-1"), claim("vm-0", "gpu-vfio-2")}}
	v, err := c.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	top := v.Topology()
	var tree, picture bytes.Buffer
	if err := topoview.Text(&tree, top, topoview.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/vfio.txt", tree.String())
	if err := svg.Topology(&picture, top); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/vfio.svg", picture.String())
	if got := top.Capacity.GPUs; got != (topoview.Count{Free: 1, Total: 2}) {
		t.Errorf("%+v, want gpu-0 alone free of the two that pods can have", got)
	}
	if len(v.Left) != 1 || v.Left[0] != "GPUs that are offered to virtual machines only (VFIO), and not counted: 2" {
		t.Errorf("left out: %q", v.Left)
	}
	for address, want := range map[string]string{"0000:8f:00.0": "", "0000:91:00.0": "for virtual machines only (VFIO)", "0000:92:00.0": "for virtual machines only (VFIO)"} {
		d := deviceAt(t, top, address)
		if got := d.PartsOnlyText(); got != want {
			t.Errorf("%s is %q, want %q", address, got, want)
		}
	}
	if d := deviceAt(t, top, "0000:91:00.0"); !strings.Contains(d.Parts[0].Form(), "for a virtual machine") || *d.Parts[0].MemoryMiB != 256<<10 {
		t.Errorf("%+v", d.Parts)
	}
}
