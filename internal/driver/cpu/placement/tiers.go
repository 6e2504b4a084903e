// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"plumbline.dev/plumbline/internal/model"
)

// tiers sorts cores into groups to be used one after another: by kind of core,
// since work on two kinds runs at the pace of the slower, and within a kind
// those near to the claim's devices first. Where a single tier holds the whole
// request, it comes alone before all others.
func (r Request) tiers(cores []candidate) [][]candidate {
	var tiers [][]candidate
	for _, kind := range r.order() {
		var near, far []candidate
		for _, c := range cores {
			switch {
			case c.core.Type != kind:
			case r.isNear(c):
				near = append(near, c)
			default:
				far = append(far, c)
			}
		}
		// Near and far of one kind together are better than two kinds.
		if threads(near) < r.N && threads(near)+threads(far) >= r.N {
			return [][]candidate{near, far}
		}
		for _, tier := range [][]candidate{near, far} {
			if threads(tier) >= r.N {
				return [][]candidate{tier}
			}
			if len(tier) > 0 {
				tiers = append(tiers, tier)
			}
		}
	}
	return tiers
}

func (r Request) isNear(c candidate) bool {
	return !r.Near.IsEmpty() && slices.ContainsFunc(c.free, r.Near.Contains)
}

// order lists the kinds of cores, the preferred one first.
func (r Request) order() []model.CoreType {
	kinds := []model.CoreType{model.PerformanceCore, model.StandardCore, model.EfficiencyCore}
	if i := slices.Index(kinds, r.Policy.Prefer); i > 0 {
		kinds = append([]model.CoreType{r.Policy.Prefer}, slices.Delete(kinds, i, i+1)...)
	}
	return kinds
}
