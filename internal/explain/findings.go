// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/api/nearest"
	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// findings are what is wrong with claims whatever the node is.
func findings(c *snapshot.Cluster, claims []*resourceapi.ResourceClaim) []Finding {
	var all []Finding
	for _, claim := range claims {
		object := "ResourceClaim " + claim.Namespace + "/" + claim.Name
		var names []string
		for i := range claim.Spec.Devices.Requests {
			r := &claim.Spec.Devices.Requests[i]
			names = append(names, r.Name)
			for _, ask := range compile.Subrequests(i, r) {
				names = append(names, ask.Name)
				if ask.Class == "" || c.Classes[ask.Class] != nil {
					continue
				}
				message := fmt.Sprintf("device class %q does not exist", ask.Class)
				if meant := nearest.Of(ask.Class, slices.Sorted(maps.Keys(c.Classes))); meant != "" {
					message += ": did it mean " + meant + "?"
				}
				all = append(all, Finding{Cause: reason.ClassAbsent, Object: object, Field: ask.Path + ".deviceClassName", Message: message})
			}
		}
		for i, k := range claim.Spec.Devices.Constraints {
			for x, name := range k.Requests {
				if slices.Contains(names, name) {
					continue
				}
				message := fmt.Sprintf("the claim has no request %q", name)
				if meant := nearest.Of(name, names); meant != "" {
					message += ": did it mean " + meant + "?"
				} else {
					message += ": it has " + strings.Join(slices.Compact(names), ", ")
				}
				all = append(all, Finding{Cause: RequestAbsent, Object: object, Field: fmt.Sprintf("spec.devices.constraints[%d].requests[%d]", i, x), Message: message})
			}
		}
	}
	return all
}

// RequestAbsent is the cause of a finding: a constraint names a request that the
// claim does not have.
const RequestAbsent = "request-absent"
