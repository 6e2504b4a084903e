// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"os"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/topoview"
)

// sharedNode is what NVIDIA's driver publishes of one GPU in four shares, as recorded.
func sharedNode(t *testing.T) Cluster {
	t.Helper()
	text, err := os.ReadFile("../../cli/testdata/nvidia/nvidia-shares.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var s resourceapi.ResourceSlice
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		t.Fatal(err)
	}
	return Cluster{Slices: []resourceapi.ResourceSlice{s}}
}

// take adds a claim that consumes capacity of the GPU.
func take(c *Cluster, admin bool, consumes map[resourceapi.QualifiedName]string) {
	var claim resourceapi.ResourceClaim
	claim.Namespace, claim.Name = "team", "share-"+string(rune('a'+len(c.Claims)))
	r := resourceapi.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Pool: "nvidia-shares", Device: "gpu-0", ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{}}
	if admin {
		r.AdminAccess = ptr.To(true)
	}
	for name, q := range consumes {
		r.ConsumedCapacity[name] = resource.MustParse(q)
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{r}}}
	c.Claims = append(c.Claims, claim)
}

// A GPU of which no share is left is free for nobody.
func TestSharesGivenOut(t *testing.T) {
	type consumes = map[resourceapi.QualifiedName]string
	none := func(*resourceapi.Device) {}
	without := func(name resourceapi.QualifiedName, policy *resourceapi.CapacityRequestPolicy) func(*resourceapi.Device) {
		return func(d *resourceapi.Device) {
			c := d.Capacity[name]
			c.RequestPolicy = policy
			d.Capacity[name] = c
		}
	}
	one, two, zero := resource.MustParse("1"), resource.MustParse("2"), resource.MustParse("0")
	for name, tt := range map[string]struct {
		change func(*resourceapi.Device)
		claims []consumes
		admin  bool
		free   int
	}{
		"nobody":                    {none, nil, false, 1},
		"three of four":             {none, []consumes{{"shares": "1", "memory": "1Gi"}, {"shares": "2"}}, false, 1},
		"all four":                  {none, []consumes{{"shares": "1"}, {"shares": "2"}, {"shares": "1"}}, false, 0},
		"all memory, which none":    {none, []consumes{{"shares": "1", "memory": "143771Mi"}}, false, 1},
		"an administrator looks":    {none, []consumes{{"shares": "4"}}, true, 1},
		"less than the least value": {without("shares", &resourceapi.CapacityRequestPolicy{Default: &two, ValidValues: []resource.Quantity{two}}), []consumes{{"shares": "3"}}, false, 0},
		"any amount, some left":     {without("shares", nil), []consumes{{"shares": "3"}}, false, 1},
		"any amount, none left":     {without("shares", nil), []consumes{{"shares": "4"}}, false, 0},
		"none unless asked for":     {without("shares", &resourceapi.CapacityRequestPolicy{Default: &zero}), []consumes{{"shares": "4"}}, false, 1},
		"one unless asked for":      {without("shares", &resourceapi.CapacityRequestPolicy{Default: &one}), []consumes{{"shares": "4"}}, false, 0},
		"a capacity of another":     {none, []consumes{{"other": "4"}}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := sharedNode(t)
			tt.change(&c.Slices[0].Spec.Devices[0])
			for _, one := range tt.claims {
				take(&c, tt.admin, one)
			}
			v, err := c.Node("nvidia-shares")
			if err != nil {
				t.Fatal(err)
			}
			top := v.Topology()
			if got := top.Capacity.GPUs; got != (topoview.Count{Free: tt.free, Total: 1}) {
				t.Errorf("%+v, want %d free", got, tt.free)
			}
			var text strings.Builder
			if err := topoview.Text(&text, top, topoview.TextOptions{}); err != nil {
				t.Fatal(err)
			}
			if said := strings.Contains(text.String(), "no share left"); said != (tt.free == 0) {
				t.Errorf("said %t:\n%s", said, text.String())
			}
		})
	}
}
