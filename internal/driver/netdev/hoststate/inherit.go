// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"slices"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Inherit adds the routes that lead through this NIC and one that another claim
// took before: the kernel dropped them then, so that they cannot be read any
// more, and whichever claim ends last must restore them.
func (s *State) Inherit(other *State) error {
	var through []Route
	for _, route := range other.Routes {
		i := slices.IndexFunc(route.Others, func(o Other) bool { return o.Name == s.Name })
		if i < 0 {
			continue
		}
		// The same route, seen from this NIC: its own index is 0, and the other
		// NIC is one of the others.
		seen := Route{Others: slices.Clone(route.Others)}
		seen.Others[i] = Other{Index: other.Index, Name: other.Name}
		var err error
		seen.Saved, err = rtnl.Redirect(route.Saved, map[int]int{0: other.Index, route.Others[i].Index: 0})
		if err != nil {
			return err
		}
		through = append(through, seen)
	}
	s.addRoutes(through)
	return nil
}
