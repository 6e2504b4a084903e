// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// pairwise warns of a constraint on requests for several devices each that
// reads as if it made pairs: it wants all of them at one place.
func (l linter) pairwise(at *field.Path, c resourceapi.DeviceConstraint) {
	if c.MatchAttribute == nil || *c.MatchAttribute != slicecodec.AttrPCIeRoot {
		return
	}
	several, all := 0, 0
	for _, r := range l.o.claim.Devices.Requests {
		if len(c.Requests) > 0 && !slices.Contains(c.Requests, r.Name) || r.Exactly == nil {
			continue
		}
		all += int(max(1, r.Exactly.Count))
		if r.Exactly.Count > 1 {
			several++
		}
	}
	if several > 1 {
		l.warning(field.Invalid(at.Child("matchAttribute"), string(*c.MatchAttribute), fmt.Sprintf(
			"wants all %d devices below one PCIe root, and makes no pairs: want a request and a constraint for each pair (claim new writes them)", all)))
	}
}

// tooMany refuses a claim of more devices than the API allocates to one.
func (l linter) tooMany(at *field.Path) {
	n := 0
	for _, r := range l.o.claim.Devices.Requests {
		fewest := 0
		if e := r.Exactly; e != nil {
			fewest = int(max(1, e.Count))
		}
		for i, s := range r.FirstAvailable {
			if count := int(max(1, s.Count)); i == 0 || count < fewest {
				fewest = count
			}
		}
		n += fewest
	}
	if n > resourceapi.AllocationResultsMaxSize {
		l.error(&field.Error{Type: field.ErrorTypeTooMany, Field: at.String(), BadValue: n, Detail: fmt.Sprintf(
			"the claim is for %d devices, and %d can be allocated to one: want several claims, aligned each by itself", n, resourceapi.AllocationResultsMaxSize)})
	}
}
