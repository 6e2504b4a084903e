// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"slices"
	"time"
)

// Median is the median of durations, of which there must be one.
func Median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
