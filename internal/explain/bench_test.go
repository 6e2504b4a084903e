// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

func BenchmarkExplain1(b *testing.B)    { explainNodes(b, 1) }
func BenchmarkExplain100(b *testing.B)  { explainNodes(b, 100) }
func BenchmarkExplain5000(b *testing.B) { explainNodes(b, 5000) }

// explainNodes explains a claim for four pairs on nodes that others share in
// different ways, none of which leaves four pairs.
func explainNodes(b *testing.B, n int) {
	s := fleet(b, n)
	claim := pairs(4, true, false)
	start := cpuTime(b)
	for b.Loop() {
		r, err := explain.Explain(context.Background(), snapshot.New(s), explain.OfClaim(claim))
		if err != nil || r.Verdict != explain.FitsNot || r.Nodes != n {
			b.Fatalf("%+v, %v", r, err)
		}
	}
	b.ReportMetric(milliseconds(cpuTime(b)-start)/float64(b.N)/float64(n), "CPU-ms/node")
}

// cpuTime is what this process has had of the processors: what else runs on the
// machine does not count.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fleet is machines like A3 Ultra, on each of which others have some NICs and
// GPUs.
func fleet(tb testing.TB, n int) snapshot.Objects {
	tb.Helper()
	s := explaintest.A3(tb, n)
	for i := range n {
		node := fmt.Sprintf("a3-ultragpu-8g-%d", i)
		var held []snapshot.DeviceID
		for k := range 5 + i%3 {
			// 7 and 8 have nothing in common, so each k is another NIC.
			held = append(held, snapshot.DeviceID{Driver: "dra.net", Pool: node, Device: explaintest.A3NICs[(i+k*7)%8]})
		}
		for k := range i % 4 {
			held = append(held, snapshot.DeviceID{Driver: "gpu.nvidia.com", Pool: node, Device: fmt.Sprintf("gpu-%d", (i+k)%8)})
		}
		s.Claims = append(s.Claims, explaintest.Holding(fmt.Sprintf("train-%d", i), held...))
	}
	return s
}

// pairs is a claim for GPUs each with a NIC on its root, and with CPUs on the
// NIC's NUMA node; their requests interleaved or in groups.
func pairs(n int, interleaved, cpus bool) *resourceapi.ResourceClaim {
	kinds := []string{"gpu", "nic"}
	classes := map[string]string{"gpu": "gpu.nvidia.com", "nic": "mrdma.google.com", "cpu": "dra.cpu"}
	if cpus {
		kinds = append(kinds, "cpu")
	}
	c := explaintest.Claim("pairs", nil)
	add := func(kind string, i int) {
		r := explaintest.Request(fmt.Sprintf("%s%d", kind, i), classes[kind], 1)
		if kind == "cpu" {
			r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"dra.cpu/cpu": resource.MustParse("4")}}
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
	}
	if interleaved {
		for i := range n {
			for _, kind := range kinds {
				add(kind, i)
			}
		}
	} else {
		for _, kind := range kinds {
			for i := range n {
				add(kind, i)
			}
		}
	}
	for i := range n {
		gpu, nic, cpu := fmt.Sprintf("gpu%d", i), fmt.Sprintf("nic%d", i), fmt.Sprintf("cpu%d", i)
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, explaintest.Match("resource.kubernetes.io/pcieRoot", gpu, nic))
		if cpus {
			c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, explaintest.Match("dra.net/numaNode", cpu, nic))
		}
	}
	return c
}

func BenchmarkEightPairsInterleaved(b *testing.B) { eightPairs(b, sevenNICs(b), pairs(8, true, false)) }
func BenchmarkEightPairsGrouped(b *testing.B)     { eightPairs(b, sevenNICs(b), pairs(8, false, false)) }
func BenchmarkEightPairsFewCPUs(b *testing.B)     { eightPairs(b, fewCPUs(b), pairs(8, true, true)) }

func sevenNICs(tb testing.TB) snapshot.Objects {
	s := explaintest.A3(tb, 1)
	s.Claims = []*resourceapi.ResourceClaim{explaintest.Holding("other", snapshot.DeviceID{Driver: "dra.net", Pool: "a3-ultragpu-8g-0", Device: explaintest.A3NICs[0]})}
	return s
}

// fewCPUs is a machine with 14 CPUs on each NUMA node: enough for three groups.
func fewCPUs(tb testing.TB) snapshot.Objects {
	s := explaintest.A3(tb, 1)
	for _, slice := range s.Slices {
		for i := range slice.Spec.Devices {
			if has, found := slice.Spec.Devices[i].Capacity["dra.cpu/cpu"]; found {
				has.Value = resource.MustParse("14")
				slice.Spec.Devices[i].Capacity["dra.cpu/cpu"] = has
			}
		}
	}
	return s
}

// allocatorsPatience is the longest that the scheduler's allocator may take.
const allocatorsPatience = 30 * time.Second

// eightPairs says why a claim does not fit, and compares the time with what the
// scheduler's allocator takes to say no.
func eightPairs(b *testing.B, s snapshot.Objects, claim *resourceapi.ResourceClaim) {
	known := snapshot.New(s)
	claims := []*resourceapi.ResourceClaim{claim}
	selectors := compile.NewSelectors()
	node := known.NodeNames()[0]
	start := cpuTime(b)
	for b.Loop() {
		a, err := reason.NewEvaluator(compile.New(known, selectors), claims).Evaluate(context.Background(), known.Node(node))
		if err != nil || a.Verdict != solver.FitsNot || len(a.Conflict) == 0 {
			b.Fatalf("%+v, %v", a, err)
		}
	}
	ours := (cpuTime(b) - start) / time.Duration(b.N)
	b.StopTimer()
	oracle := explaintest.NewOracle(known, selectors.Compiled())
	start = cpuTime(b)
	v, _, _ := oracle.Ask(context.Background(), node, claims, allocatorsPatience)
	theirs := cpuTime(b) - start
	if v != solver.FitsNot && v != solver.Unknown {
		b.Fatalf("the allocator says %d", v)
	}
	b.ReportMetric(milliseconds(ours), "CPU-ms/node")
	b.ReportMetric(float64(ours)/float64(theirs), "of-allocator")
	b.ReportMetric(milliseconds(theirs), "allocator-CPU-ms")
}
