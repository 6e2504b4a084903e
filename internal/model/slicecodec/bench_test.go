// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec_test

import (
	"testing"

	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// BenchmarkEncodeA3 encodes what an A3 Ultra publishes: 8 GPUs, 8 NICs, 2
// groups of CPUs.
func BenchmarkEncodeA3(b *testing.B) {
	facts, err := machine.OpenFacts("a3-ultragpu-8g")
	if err != nil {
		b.Fatal(err)
	}
	tree, err := machine.Render(facts)
	if err != nil {
		b.Fatal(err)
	}
	sources := inventory.Sources{Sys: tree, GPUs: inventory.Simulated{Facts: facts.ModelGPUs(), StandIn: "nothing"}}
	m, _, err := inventory.Scan(b.Context(), sources, inventory.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		devices := 0
		for _, driver := range slicecodec.Drivers() {
			devices += len(slicecodec.Encode(m, driver, slicecodec.CPUOptions{}))
		}
		if devices != 18 {
			b.Fatalf("%d devices, want 18", devices)
		}
	}
}
