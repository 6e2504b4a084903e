// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// tolerate tolerates the taints on devices that would do.
func (f *finder) tolerate() {
	requests, _ := f.conflictMembers()
	var taints []resourceapi.DeviceTaint
	var names []string
	for _, p := range requests {
		for i := range f.request(p).Alternatives {
			for d, why := range f.request(p).Alternatives[i].Why {
				if why.Obstacle != compile.Tainted {
					continue
				}
				names = append(names, f.request(p).Name)
				for _, t := range f.a.Devices[d].Device.Taints {
					if !slices.ContainsFunc(taints, func(o resourceapi.DeviceTaint) bool {
						return o.Key == t.Key && o.Value == t.Value && o.Effect == t.Effect
					}) {
						taints = append(taints, t)
					}
				}
			}
		}
	}
	if len(taints) == 0 {
		return
	}
	var words []string
	var tolerations []resourceapi.DeviceToleration
	for _, t := range taints {
		words = append(words, snapshot.TaintText(&t))
		tolerations = append(tolerations, resourceapi.DeviceToleration{Key: t.Key, Operator: resourceapi.DeviceTolerationOpEqual, Value: t.Value, Effect: t.Effect})
	}
	f.propose(Tolerate, fmt.Sprintf("tolerate %s in %s, if a device with that taint will do", strings.Join(words, " and "), strings.Join(slices.Compact(names), ", ")),
		f.here(f.changed(func(claim int, c *resourceapi.ResourceClaim) {
			for _, p := range requests {
				if p.claim != claim {
					continue
				}
				for _, x := range fieldsOf(&c.Spec.Devices.Requests[p.index]) {
					*x.tolerations = append(*x.tolerations, tolerations...)
				}
			}
		})))
}
