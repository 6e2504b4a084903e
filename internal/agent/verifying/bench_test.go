// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifying

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// hundred are pods with two processes' worth of threads each on a machine of 224
// CPUs, eight of them with a GPU and a NIC, beside the processes of a node.
func hundred(b *testing.B) *fixture {
	b.Helper()
	s := newFixture(b, "a3-ultragpu-8g")
	nodes := s.node.Machine.NUMANodes
	for i := range 100 {
		var devices []int
		if i < 8 {
			devices = []int{i}
		}
		list := nodes[i/50].CPUs.List()
		p, _ := s.start(b, fmt.Sprintf("pod-%d", i), devices, devices, cpuset.New(list[2*(i%50)], list[2*(i%50)+1]))
		for len(p.Threads) < 16 {
			p.Threads = append(p.Threads, verifytest.Thread{CPU: p.CPUs.List()[0], Ticks: 100})
		}
		s.node.Write(b, p)
	}
	for i := range 1500 {
		s.node.Process(b, 100000+i)
	}
	return s
}

// BenchmarkVerifyHundredPods is one look of the agent at 100 pods among 1,500
// other processes, as it takes every 10 s; and what that is of one core.
func BenchmarkVerifyHundredPods(b *testing.B) {
	s := hundred(b)
	s.Once(b.Context())
	if len(s.conditions) != 100 {
		b.Fatalf("%d claims with a verdict, want 100", len(s.conditions))
	}
	before := cpuTime(b)
	for b.Loop() {
		s.Once(b.Context())
	}
	spent := cpuTime(b) - before
	b.ReportMetric(float64(spent)/float64(b.N)/float64(10*time.Second)*100, "%-of-a-core")
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/100, "µs/pod")
	if len(s.events) > 0 {
		b.Fatalf("events %q", s.events)
	}
}

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
