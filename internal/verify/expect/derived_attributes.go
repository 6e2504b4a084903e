// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// derivedBy collects what requests derive. Of two of one name the scheduler knows the
// last.
func derivedBy(requests []resourceapi.DeviceRequest) map[string]map[string]string {
	var all map[string]map[string]string
	add := func(request string, attributes []resourceapi.DeviceDerivedAttribute) {
		for _, a := range attributes {
			if all == nil {
				all = map[string]map[string]string{}
			}
			if all[request] == nil {
				all[request] = map[string]string{}
			}
			all[request][string(a.Name)] = a.Expression
		}
	}
	for _, r := range requests {
		if r.Exactly != nil {
			add(r.Name, r.Exactly.DerivedAttributes)
		}
		for _, s := range r.FirstAvailable {
			add(resourceclaim.CreateSubRequestRef(r.Name, s.Name), s.DerivedAttributes)
		}
	}
	return all
}
