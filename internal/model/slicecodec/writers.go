// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Writers are who has written a slice since a time, by the names that the API server has of
// them, sorted: those of programs, such as gpu-kubelet-plugin. Where it does not tell, or
// who asked for the slice was not told, there are none.
func Writers(s *resourceapi.ResourceSlice, since time.Time) []string {
	var names []string
	for _, f := range s.ManagedFields {
		if f.Manager != "" && (f.Time == nil && since.IsZero() || f.Time != nil && !f.Time.Time.Before(since)) {
			names = append(names, f.Manager)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
