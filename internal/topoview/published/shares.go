// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package published

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// publishedDevice names a device of the cluster.
type publishedDevice struct{ driver, pool, device string }

// consumption is what claims have of the capacities of devices that several can hold.
type consumption map[publishedDevice]map[resourceapi.QualifiedName]*resource.Quantity

// consumed adds up what claims consume. An administrator's claim consumes nothing.
func consumed(claims []resourceapi.ResourceClaim) consumption {
	sum := consumption{}
	for i := range claims {
		if claims[i].Status.Allocation == nil {
			continue
		}
		for _, r := range claims[i].Status.Allocation.Devices.Results {
			if ptr.Deref(r.AdminAccess, false) || len(r.ConsumedCapacity) == 0 {
				continue
			}
			id := publishedDevice{r.Driver, r.Pool, r.Device}
			if sum[id] == nil {
				sum[id] = map[resourceapi.QualifiedName]*resource.Quantity{}
			}
			for name, q := range r.ConsumedCapacity {
				if sum[id][name] == nil {
					sum[id][name] = &resource.Quantity{}
				}
				sum[id][name].Add(q)
			}
		}
	}
	return sum
}

// usedUp says whether no claim can have a share of the device any more: of some capacity
// less is left than the least that a request can consume.
func (c consumption) usedUp(s *resourceapi.ResourceSlice, d *resourceapi.Device) bool {
	for name, used := range c[publishedDevice{s.Spec.Driver, s.Spec.Pool.Name, d.Name}] {
		of, there := d.Capacity[name]
		if !there {
			continue
		}
		left := of.Value.DeepCopy()
		left.Sub(*used)
		least := leastOf(of.RequestPolicy)
		if least == nil && left.Sign() <= 0 || least != nil && left.Cmp(*least) < 0 {
			return true
		}
	}
	return false
}

// amount is how much of a capacity of a device claims have.
func (c consumption) amount(s *resourceapi.ResourceSlice, d *resourceapi.Device, name resourceapi.QualifiedName) int64 {
	q := c[publishedDevice{s.Spec.Driver, s.Spec.Pool.Name, d.Name}][name]
	if q == nil {
		return 0
	}
	return q.Value()
}

// leastOf is the least that a request can consume; nil for any amount above nothing.
func leastOf(policy *resourceapi.CapacityRequestPolicy) *resource.Quantity {
	switch {
	case policy == nil:
		return nil
	case policy.ValidRange != nil:
		return policy.ValidRange.Min
	case len(policy.ValidValues) > 0:
		return &policy.ValidValues[0]
	case policy.Default != nil && policy.Default.IsZero():
		return policy.Default
	}
	return nil
}
