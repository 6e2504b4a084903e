// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver/cpu/placement"
)

// BenchmarkPlace chooses 16 CPUs where every core is half used already, the
// worst case of the driver we replace (23 to 30 ms).
func BenchmarkPlace(b *testing.B) {
	for _, cpus := range []int{256, 512, 1024} {
		b.Run(fmt.Sprintf("cpus=%d", cpus), func(b *testing.B) {
			m := shape{sockets: 2, nodes: 1, cores: cpus / 4, threads: 2, perL3: 8}.build()
			var half []int
			for _, g := range m.groups {
				half = append(half, g.List()[:g.Size()/2]...)
			}
			free := cpuset.New(half...)
			for b.Loop() {
				if _, err := placement.Place(m.topology, placement.Request{N: 16, Free: free}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
