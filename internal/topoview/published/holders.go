// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/topoview"
)

// holders finds who holds the devices of some slices: the claims allocated
// them. A claim with admin access looks at a device and does not
// hold it.
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
	for i := range claims {
		addHolders(held, &claims[i], func(r resourceapi.DeviceRequestAllocationResult) bool { return pools[poolID{r.Driver, r.Pool}] }, capacity)
	}
	return held
}

// addHolders adds what a claim holds of the devices that are ours. capacity are
// the CPUs of devices of which a claim that says nothing holds all.
func addHolders(held map[topoview.DeviceID][]topoview.Holder, claim *resourceapi.ResourceClaim,
	ours func(resourceapi.DeviceRequestAllocationResult) bool, capacity map[topoview.DeviceID]int) {
	if claim.Status.Allocation == nil {
		return
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if !ours(r) || ptr.Deref(r.AdminAccess, false) {
			continue
		}
		id := topoview.DeviceID{Driver: r.Driver, Name: r.Device}
		h := topoview.Holder{Namespace: claim.Namespace, Claim: claim.Name, Pods: podsOf(claim), CPUCount: capacity[id], CPUs: slicecodec.CPUsOf(claim, r)}
		if q, ok := r.ConsumedCapacity[slicecodec.CapacityCPU]; ok {
			h.CPUCount = int(q.Value())
		}
		held[id] = append(held[id], h)
	}
}

// HoldersOf takes claims as the holders of devices, whatever pool they name.
func HoldersOf(claims []resourceapi.ResourceClaim) map[topoview.DeviceID][]topoview.Holder {
	held := map[topoview.DeviceID][]topoview.Holder{}
	for i := range claims {
		addHolders(held, &claims[i], func(resourceapi.DeviceRequestAllocationResult) bool { return true }, nil)
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

// claimsByPool finds the claims that hold devices of each pool, so that a node
// of thousands need not look at all claims.
func (c Cluster) claimsByPool() map[poolID][]resourceapi.ResourceClaim {
	byPool := map[poolID][]resourceapi.ResourceClaim{}
	for _, claim := range c.Claims {
		if claim.Status.Allocation == nil {
			continue
		}
		var seen []poolID
		for _, r := range claim.Status.Allocation.Devices.Results {
			if id := (poolID{r.Driver, r.Pool}); !slices.Contains(seen, id) {
				seen = append(seen, id)
				byPool[id] = append(byPool[id], claim)
			}
		}
	}
	return byPool
}

// withoutRepeatedClaims keeps each claim once: one that holds devices of two
// pools was found in both.
func withoutRepeatedClaims(claims []resourceapi.ResourceClaim) []resourceapi.ResourceClaim {
	seen := map[types.NamespacedName]bool{}
	return slices.DeleteFunc(claims, func(c resourceapi.ResourceClaim) bool {
		name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		repeated := seen[name]
		seen[name] = true
		return repeated
	})
}
