// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
)

// holders finds who holds the devices of some slices: the claims allocated
// them. A claim with admin access looks at a device and does not hold it.
func holders(published []resourceapi.ResourceSlice, claims []resourceapi.ResourceClaim) map[topoview.DeviceID][]topoview.Holder {
	pools := map[poolID]bool{}
	capacity := map[topoview.DeviceID]int{}
	for _, s := range published {
		pools[poolID{s.Spec.Driver, s.Spec.Pool.Name}] = true
		for _, d := range s.Spec.Devices {
			if c, ok := d.Capacity[slicecodec.CapacityCPU]; ok {
				capacity[topoview.DeviceID{Driver: s.Spec.Driver, Name: d.Name}] = int(c.Value.Value())
			}
		}
	}
	held := map[topoview.DeviceID][]topoview.Holder{}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if !pools[poolID{r.Driver, r.Pool}] || r.AdminAccess != nil && *r.AdminAccess {
				continue
			}
			id := topoview.DeviceID{Driver: r.Driver, Name: r.Device}
			h := topoview.Holder{Namespace: claim.Namespace, Claim: claim.Name, Pods: podsOf(&claim), CPUCount: capacity[id]}
			if q, ok := r.ConsumedCapacity[slicecodec.CapacityCPU]; ok {
				h.CPUCount = int(q.Value())
			}
			held[id] = append(held[id], h)
		}
	}
	return held
}

// podsOf names the pods a claim is reserved for.
func podsOf(claim *resourceapi.ResourceClaim) []string {
	var pods []string
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			pods = append(pods, consumer.Name)
		}
	}
	return pods
}
