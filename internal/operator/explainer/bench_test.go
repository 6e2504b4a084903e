// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

func BenchmarkExplainer1000(b *testing.B) { fleet(b, 1000) }
func BenchmarkExplainer5000(b *testing.B) { fleet(b, 5000) }

// fleet is what machines like A3 Ultra cost the explainer, on each of which
// somebody has a NIC: the memory for what is kept of them, and an answer for a pod
// that fits on none.
func fleet(b *testing.B, n int) {
	first := explaintest.Machine(b, "a3-ultragpu-8g", "node")
	before := heap()
	r := &pass{packed: map[*resourceapi.ResourceSlice]*packed{}}
	s := snapshot.Objects{Minor: allocation.NewestMinor, Gates: allocation.DefaultGates(allocation.NewestMinor), Classes: explaintest.ShippedClasses(b), Unpack: r.unpack}
	for i := range n {
		node := fmt.Sprintf("node-%d", i)
		for k, slice := range first {
			p := received(b, slice, node, k)
			s.Slices = append(s.Slices, &p.ResourceSlice)
			r.packed[&p.ResourceSlice] = p
		}
		s.Claims = append(s.Claims, trimClaim(explaintest.Holding(fmt.Sprintf("train-%d", i),
			snapshot.DeviceID{Driver: "dra.net", Pool: node, Device: explaintest.A3NICs[i%8]})))
	}
	bytes := heap() - before
	pod := waiting("trainer", "four")
	start := cpuTime(b)
	for b.Loop() {
		s.Claims = append(s.Claims[:n:n], pair("four", 4))
		r.known, r.answers = snapshot.New(s), map[string]*explain.Report{}
		answer, err := r.explain(b.Context(), r.subject(pod))
		if err != nil || eventMessage(answer, pod, s.Claims) == "" {
			b.Fatalf("%+v, %v", answer, err)
		}
	}
	b.ReportMetric(float64(bytes)/1e6, "MB-kept")
	b.ReportMetric((cpuTime(b)-start).Seconds()/float64(b.N), "CPU-s/answer")
	runtime.KeepAlive(s)
}

// received is a slice of a node as it comes from the API server: nothing in it is
// shared with another.
func received(b *testing.B, slice *resourceapi.ResourceSlice, node string, k int) *packed {
	b.Helper()
	other := slice.DeepCopy()
	other.Name = fmt.Sprintf("%s-%d", node, k)
	other.Spec.NodeName, other.Spec.Pool.Name = &node, node
	text, err := other.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	var decoded resourceapi.ResourceSlice
	if err := decoded.Unmarshal(text); err != nil {
		b.Fatal(err)
	}
	kept, err := trim(&decoded)
	if err != nil {
		b.Fatal(err)
	}
	return kept.(*packed)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cpuTime is what this process has had of the processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
