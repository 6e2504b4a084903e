// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// FromAPI reduces an allocated claim to what one driver was given on this node,
// whose pool bears the node's name.
func FromAPI(c *resourceapi.ResourceClaim, driverName, pool string) Claim {
	out := Claim{ClaimRef: ClaimRef{UID: c.UID, Namespace: c.Namespace, Name: c.Name}, Object: c}
	for _, consumer := range c.Status.ReservedFor {
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			out.Pods = append(out.Pods, PodRef{UID: consumer.UID, Name: consumer.Name})
		}
	}
	if c.Status.Allocation == nil {
		return out
	}
	devices := c.Status.Allocation.Devices
	for _, r := range devices.Results {
		if r.Driver != driverName || r.Pool != pool {
			continue
		}
		a := Allocation{
			Request: r.Request, Pool: r.Pool, Device: r.Device, ShareID: r.ShareID,
			AdminAccess: r.AdminAccess != nil && *r.AdminAccess,
			Configs:     configsFor(devices.Config, driverName, r),
		}
		for name, quantity := range r.ConsumedCapacity {
			if a.Consumed == nil {
				a.Consumed = map[string]resource.Quantity{}
			}
			a.Consumed[string(name)] = quantity
		}
		out.Devices = append(out.Devices, a)
	}
	return out
}

// configsFor picks the layers of parameters of a driver that apply to a device, those
// of the device class before those of the claim.
func configsFor(all []resourceapi.DeviceAllocationConfiguration, driverName string, device resourceapi.DeviceRequestAllocationResult) []Config {
	var layers []Config
	for _, c := range resourceclaim.ConfigForResult(all, device) {
		if c.Opaque.Driver != driverName {
			continue
		}
		source := "claim"
		if c.Source == resourceapi.AllocationConfigSourceClass {
			source = "class"
		}
		layers = append(layers, Config{Source: source, Raw: c.Opaque.Parameters.Raw})
	}
	slices.SortStableFunc(layers, func(a, b Config) int { return -cmp.Compare(a.Source, b.Source) })
	return layers
}
