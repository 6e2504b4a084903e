// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/lab/scenario/compare"
)

// Every figure is a line as Go's benchmarks print it, ours first, with both
// agents' values and how they compare.
func TestFiguresBesideDRANET(t *testing.T) {
	ours := compare.Measured{
		Ready:  map[int]time.Duration{0: 300 * time.Millisecond, 1: 320 * time.Millisecond, 8: 450 * time.Millisecond},
		Back:   map[int]time.Duration{1: 100 * time.Millisecond, 8: 200 * time.Millisecond},
		Memory: compare.Memory{Resident: 40e6, Proportional: 30e6},
	}
	theirs := compare.Measured{
		Ready:  map[int]time.Duration{0: 310 * time.Millisecond, 1: 350 * time.Millisecond, 8: 510 * time.Millisecond},
		Back:   map[int]time.Duration{1: 200 * time.Millisecond, 8: 100 * time.Millisecond},
		Memory: compare.Memory{Resident: 80e6, Proportional: 60e6},
	}
	var out strings.Builder
	printBeside(&out, ours, theirs)
	for _, want := range []string{
		"BenchmarkPodReadyOne 1 20.00 ms-beyond-none 40.00 DRANET-ms-beyond-none 0.500 x-DRANET 0.500 of-DRANET\n",
		"BenchmarkPodReadyEight 1 150.00 ms-beyond-none 200.00 DRANET-ms-beyond-none 0.750 x-DRANET 0.750 of-DRANET\n",
		"BenchmarkPodGoneEight 1 200.00 ms 100.00 DRANET-ms 2.000 x-DRANET 2.000 of-DRANET\n",
		"BenchmarkAgentBesidePods 1 40.00 MB-resident 80.00 DRANET-MB-resident 0.500 x-DRANET 0.500 of-DRANET\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %sin\n%s", want, out.String())
		}
	}
}
