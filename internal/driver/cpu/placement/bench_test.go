// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver/cpu/placement"
)

// The benchmarks choose 16 CPUs where every core is half used already, the worst
// case of the driver we replace: 23 ms at 256 CPUs, 30 ms at 512.

func BenchmarkPlace256(b *testing.B)  { place(b, 256) }
func BenchmarkPlace512(b *testing.B)  { place(b, 512) }
func BenchmarkPlace1024(b *testing.B) { place(b, 1024) }

func place(b *testing.B, cpus int) {
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
}
