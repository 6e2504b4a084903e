// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plumbline.dev/plumbline/internal/driver"
)

// Parameters that name a request apply to its subrequests, one of which the
// scheduler chose, and not to another request's; the class comes before the claim,
// in whatever order the scheduler lists them.
func TestParametersReachSubrequests(t *testing.T) {
	config := func(source resourceapi.AllocationConfigSource, name string, requests ...string) resourceapi.DeviceAllocationConfiguration {
		return resourceapi.DeviceAllocationConfiguration{
			Source: source, Requests: requests,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(name)},
			}},
		}
	}
	fromClaim, fromClass := resourceapi.AllocationConfigSourceClaim, resourceapi.AllocationConfigSourceClass
	foreign := config(fromClaim, "of another driver")
	foreign.Opaque.Driver = "gpu.nvidia.com"
	c := &resourceapi.ResourceClaim{}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "main/near", Driver: "dra.net", Pool: "n1", Device: "a"},
			{Request: "mainly", Driver: "dra.net", Pool: "n1", Device: "b"},
			{Request: "main/near", Driver: "dra.net", Pool: "another", Device: "c"},
			{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "n1", Device: "d"},
		},
		Config: []resourceapi.DeviceAllocationConfiguration{
			config(fromClaim, "request", "main"), config(fromClaim, "subrequest", "main/near"), config(fromClaim, "other subrequest", "main/far"),
			config(fromClaim, "all"), config(fromClass, "class", "main/near"), config(fromClass, "other class", "mainly"), foreign,
		},
	}}
	got := driver.FromAPI(c, "dra.net", "n1").Devices
	want := map[string][]string{"a": {"class", "request", "subrequest", "all"}, "b": {"other class", "all"}}
	if len(got) != len(want) {
		t.Errorf("%d devices, want %d", len(got), len(want))
	}
	for _, a := range got {
		var names []string
		for _, l := range a.Configs {
			names = append(names, string(l.Raw))
		}
		if !slices.Equal(names, want[a.Device]) {
			t.Errorf("device %s of request %s: %q, want %q", a.Device, a.Request, names, want[a.Device])
		}
	}
}
