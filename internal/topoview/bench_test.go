// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview_test

import (
	"io"
	"testing"

	"plumbline.dev/plumbline/internal/inventory/inventorytest"
	"plumbline.dev/plumbline/internal/topoview"
)

// BenchmarkTopoA3 arranges and writes an A3 Ultra, 224 CPUs, 8 GPUs and 8 NICs, as
// topo does once the machine is read.
func BenchmarkTopoA3(b *testing.B) {
	m := inventorytest.Machine(b, "a3-ultragpu-8g")
	for b.Loop() {
		if err := topoview.Text(io.Discard, topoview.Build(m, topoview.Options{Source: "a test"}), topoview.TextOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
