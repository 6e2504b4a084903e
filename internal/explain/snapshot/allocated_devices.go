// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// Held is what claims hold of a device.
type Held struct {
	// Whole says that a claim has all of it.
	Whole bool
	// Shares is how many shares of it are given out.
	Shares int
	// Consumed is what the shares take of its capacities.
	Consumed map[resourceapi.QualifiedName]resource.Quantity
	Holders  []Holder
}

// Holder is a claim that has a device.
type Holder struct {
	Claim *resourceapi.ResourceClaim
	// Admin says that it has admin access only: the device is free for others.
	Admin bool
}

// Holder returns what claims hold of a device, nil where none does.
func (c *Cluster) Holder(id DeviceID) *Held { return c.held[id] }

// gatherHeld distinguishes shares from whole devices as the scheduler does
// (pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go).
func gatherHeld(claims []*resourceapi.ResourceClaim, consumable bool) map[DeviceID]*Held {
	all := map[DeviceID]*Held{}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			id := DeviceID{r.Driver, r.Pool, r.Device}
			h := all[id]
			if h == nil {
				h = &Held{}
				all[id] = h
			}
			admin := ptr.Deref(r.AdminAccess, false)
			h.Holders = append(h.Holders, Holder{Claim: claim, Admin: admin})
			switch {
			case admin:
			case consumable && r.ShareID != nil:
				h.Shares++
				h.consume(r.ConsumedCapacity)
			default:
				h.Whole = true
			}
		}
	}
	return all
}

func (h *Held) consume(amounts map[resourceapi.QualifiedName]resource.Quantity) {
	for name, amount := range amounts {
		if h.Consumed == nil {
			h.Consumed = map[resourceapi.QualifiedName]resource.Quantity{}
		}
		sum := h.Consumed[name].DeepCopy()
		sum.Add(amount)
		h.Consumed[name] = sum
	}
}
