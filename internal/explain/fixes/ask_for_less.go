// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/explain/compile"
)

// lessCapacity asks for as much of a capacity as a device has left.
func (f *finder) lessCapacity() {
	requests, _ := f.conflictMembers()
	for _, p := range requests {
		for i := range f.request(p).Alternatives {
			if f.lessOf(p, i) {
				return
			}
		}
	}
}

func (f *finder) lessOf(p memberRef, alternative int) bool {
	x := &f.request(p).Alternatives[alternative]
	for _, name := range f.capacityNames(x) {
		var asked *resource.Quantity
		if x.Capacity != nil {
			if q, named := x.Capacity.Requests[name]; named {
				asked = &q
			}
		}
		for _, amount := range f.amountsLeft(x, name, asked) {
			text := fmt.Sprintf("ask for %s of %s in %s", amount.String(), name, x.Name)
			if asked == nil {
				text += ", which takes all of a device while it does not say how much"
			} else {
				text += " instead of " + asked.String()
			}
			if f.propose(LessCapacity, text, f.here(f.changed(func(claim int, c *resourceapi.ResourceClaim) {
				if claim != p.claim {
					return
				}
				capacity := fieldsOf(&c.Spec.Devices.Requests[p.index])[alternative].capacity
				if *capacity == nil {
					*capacity = &resourceapi.CapacityRequirements{}
				}
				wanted := maps.Clone((*capacity).Requests)
				if wanted == nil {
					wanted = map[resourceapi.QualifiedName]resource.Quantity{}
				}
				wanted[name] = amount
				(*capacity).Requests = wanted
			}))) {
				return true
			}
		}
	}
	return false
}

// capacityNames are the capacities that keep devices from an alternative.
func (f *finder) capacityNames(x *compile.Alternative) []resourceapi.QualifiedName {
	names := map[resourceapi.QualifiedName]bool{}
	for d, why := range x.Why {
		switch why.Obstacle {
		case compile.TooSmall, compile.TooLittleLeft, compile.AgainstPolicy:
			names[resourceapi.QualifiedName(why.Detail)] = true
		case compile.None:
			if many := f.a.Devices[d].Device.AllowMultipleAllocations; many != nil && *many {
				for name := range f.a.Devices[d].Device.Capacity {
					names[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// maxAmounts is how many amounts are tried.
const maxAmounts = 6

// amountsLeft are what devices have left of a capacity, less than what is asked
// for, the most first, and halves of it.
func (f *finder) amountsLeft(x *compile.Alternative, name resourceapi.QualifiedName, asked *resource.Quantity) []resource.Quantity {
	var all []resource.Quantity
	add := func(q resource.Quantity) {
		if q.Sign() <= 0 || asked != nil && q.Cmp(*asked) >= 0 ||
			slices.ContainsFunc(all, func(o resource.Quantity) bool { return o.Cmp(q) == 0 }) {
			return
		}
		all = append(all, q)
	}
	for d, why := range x.Why {
		if why.Obstacle != compile.TooSmall && why.Obstacle != compile.TooLittleLeft && why.Obstacle != compile.AgainstPolicy && why.Obstacle != compile.None {
			continue
		}
		has, found := f.a.Devices[d].Device.Capacity[name]
		if !found {
			continue
		}
		free := has.Value.DeepCopy()
		if held := f.a.Devices[d].Held; held != nil {
			free.Sub(held.Consumed[name])
		}
		add(free)
		if half := free.Value() / 2; half > 0 {
			add(*resource.NewQuantity(half, free.Format))
		}
	}
	slices.SortFunc(all, func(a, b resource.Quantity) int { return b.Cmp(a) })
	return all[:min(len(all), maxAmounts)]
}

// fewer asks for fewer devices where a request asks for several: of all requests
// of the conflict alike, so that pairs stay pairs.
func (f *finder) fewer() {
	requests, _ := f.conflictMembers()
	most := int64(0)
	for _, p := range requests {
		for _, x := range f.request(p).Alternatives {
			if x.All {
				most = max(most, int64(min(len(x.Why), resourceapi.AllocationResultsMaxSize)))
			} else {
				most = max(most, min(x.Count, resourceapi.AllocationResultsMaxSize+1))
			}
		}
	}
	for n := most - 1; n > 0; n-- {
		var words []string
		claims := f.changed(func(claim int, c *resourceapi.ResourceClaim) {
			for _, p := range requests {
				if p.claim != claim {
					continue
				}
				for i, x := range fieldsOf(&c.Spec.Devices.Requests[p.index]) {
					ask := &f.request(p).Alternatives[i].Subrequest
					if !ask.All && ask.Count <= n {
						continue
					}
					*x.mode, *x.count = resourceapi.DeviceAllocationModeExactCount, n
					words = append(words, ask.Name)
				}
			}
		})
		if f.propose(Fewer, fmt.Sprintf("ask for %d in %s", n, strings.Join(words, " and ")), f.here(claims)) {
			return
		}
	}
}
