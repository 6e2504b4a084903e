// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"bytes"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/simulate"
)

// BenchmarkSimulateA3 fills an A3 Ultra with pairs of a GPU and a NIC with CPUs,
// and compares that with the allocator alone, which gives the same pairs and does
// not say why there are no more.
func BenchmarkSimulateA3(b *testing.B) {
	group, err := simulate.FromMachine(b.Context(), "a3-ultragpu-8g", nil, &bytes.Buffer{})
	if err != nil {
		b.Fatal(err)
	}
	spec, err := claimgen.Spec(claimgen.Options{GPUs: 1, NICs: 1, CPUs: 4, Align: claimgen.PCIe})
	if err != nil {
		b.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pair"}, Spec: *spec}
	options := simulate.Options{Classes: shippedClasses(b), Limit: 50}
	var slices []*resourceapi.ResourceSlice
	for i := range group.Slices {
		slices = append(slices, &group.Slices[i])
	}
	var ours, theirs time.Duration
	for b.Loop() {
		start := time.Now()
		n, err := simulate.Fill(b.Context(), group, explain.OfClaim(claim), options)
		if err != nil || n.Pods != 8 {
			b.Fatalf("%+v: %v", n, err)
		}
		ours += time.Since(start)
		start = time.Now()
		pods, _, err := allocation.New(allocation.DefaultGates(allocation.NewestMinor), options.Classes, slices, nil).Fill(b.Context(), group.Node, 50, claim)
		if err != nil || len(pods) != 8 {
			b.Fatalf("%d pods: %v", len(pods), err)
		}
		theirs += time.Since(start)
	}
	b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "ms/machine")
	b.ReportMetric(float64(ours)/float64(theirs), "of-allocator")
}
