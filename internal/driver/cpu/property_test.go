// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// shape is a machine in numbers. Linux numbers first threads of all cores, then
// second threads; core_id repeats in every package.
type shape struct {
	packages, nodesPer, coresPer, smt, coresPerL3 int // coresPerL3: 0 is no L3
	offline                                       cpuset.CPUSet
	// little is how many of four cores are efficiency cores; memoryless is how many
	// of the last nodes have no memory; pages are the huge pages of 2 MiB of each
	// other node.
	little, memoryless int
	pages              int64
}

// randomShape is any machine there may be, of at most cores cores a node.
func randomShape(r *rand.Rand, cores int) shape {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	s := shape{
		packages: pick(1, 1, 2, 2, 4), nodesPer: pick(1, 1, 2, 4), coresPer: 1 + r.IntN(cores), smt: pick(1, 2, 2, 4, 8),
		coresPerL3: pick(0, 1, 2, 4, 64), little: pick(0, 0, 1, 2), pages: int64(pick(0, 1, 40)),
	}
	s.memoryless = r.IntN(s.packages * s.nodesPer)
	if r.IntN(3) == 0 {
		var offline []int
		for range 1 + r.IntN(4) {
			offline = append(offline, 1+r.IntN(s.packages*s.nodesPer*s.coresPer*s.smt))
		}
		s.offline = cpuset.New(offline...)
	}
	return s
}

func (s shape) machine(t *testing.T) *model.Machine {
	t.Helper()
	parts := model.Machine{}
	cores := s.packages * s.nodesPer * s.coresPer
	nodes := make([]cpuset.CPUSet, s.packages*s.nodesPer)
	for id := range cores * s.smt {
		n := id % cores
		node := n / s.coresPer
		pkg := node / s.nodesPer
		c := model.CPU{ID: id, Online: !s.offline.Contains(id), NUMANode: &node}
		if c.Online {
			if s.coresPerL3 > 0 {
				l3 := n / s.coresPerL3
				c.L3 = &l3
			}
			if s.little > 0 {
				c.Type = model.PerformanceCore
				if n%4 < s.little {
					c.Type = model.EfficiencyCore
				}
			}
			c.Core = &model.CoreID{Package: pkg, Core: n % (s.nodesPer * s.coresPer)}
			var siblings []int
			for thread := range s.smt {
				if sibling := n + thread*cores; !s.offline.Contains(sibling) {
					siblings = append(siblings, sibling)
				}
			}
			c.Siblings = cpuset.New(siblings...)
			nodes[node] = nodes[node].Union(cpuset.New(id))
		}
		parts.CPUs = append(parts.CPUs, c)
	}
	for id, cpus := range nodes {
		n := model.NUMANode{ID: id, CPUs: cpus, MemoryBytes: ptr.To(uint64(1 << 30)), Distances: map[int]int{}}
		for other := range nodes {
			n.Distances[other] = 10 + 2*max(id-other, other-id)
		}
		if id >= len(nodes)-s.memoryless {
			n.MemoryBytes = ptr.To(uint64(0))
		} else if s.pages > 0 {
			n.Hugepages = []model.HugepagePool{{PageBytes: 2 << 20, Pages: s.pages}, {PageBytes: 1 << 30, Pages: 1}}
		}
		parts.NUMANodes = append(parts.NUMANodes, n)
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A core_id that repeats in every package once gave claims CPUs of the other
// socket: half-used cores made the two look like one.
func TestPlaceStaysOnTheSocket(t *testing.T) {
	m := shape{packages: 2, nodesPer: 1, coresPer: 8, smt: 2, coresPerL3: 8}.machine(t)
	d := Driver{Offer: slicecodec.CPUOptions{Reserved: cpuset.New(0, 1)}}
	var held []driver.Record
	for i := range 3 {
		r, err := d.Plan(claim(fmt.Sprintf("claim-%d", i), "cpudevnuma000", 4), m, held)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, r)
		if cpus := cpusOf(t, r); !cpus.IsSubsetOf(m.NUMANode(0).CPUs) || !cpus.Intersection(d.Offer.Reserved).IsEmpty() {
			t.Errorf("claim %d got %s; node 0 has %s, reserved are %s", i, cpus, m.NUMANode(0).CPUs, d.Offer.Reserved)
		}
	}
}

// Random claims come and go on random machines: each gets as many CPUs as it
// asked for, of its node, online, unreserved, and nobody else's; a claim is
// refused only when its node is out of CPUs; in the end everything is free.
func TestPlanProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	for range 60 {
		s := shape{
			packages: 1 + random.IntN(2), nodesPer: 1 + random.IntN(2), coresPer: 2 + random.IntN(6),
			smt: 1 + random.IntN(2), coresPerL3: 1 + random.IntN(4),
		}
		total := s.packages * s.nodesPer * s.coresPer * s.smt
		s.offline = cpuset.New(random.IntN(total), random.IntN(total)).Difference(cpuset.New(0))
		churn(t, random, s.machine(t), Driver{Offer: slicecodec.CPUOptions{Reserved: cpuset.New(random.IntN(total))}})
	}
}

func churn(t *testing.T, random *rand.Rand, m *model.Machine, d Driver) {
	t.Helper()
	var held []driver.Record
	for step := range 60 {
		if len(held) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(held))
			held = append(held[:i:i], held[i+1:]...)
			continue
		}
		node := m.NUMANodes[random.IntN(len(m.NUMANodes))]
		offered := allocatable(m, d, node.ID)
		if offered.IsEmpty() {
			continue
		}
		n := 1 + random.IntN(offered.Size())
		taken, err := takenBy(held)
		if err != nil {
			t.Fatal(err)
		}
		free := offered.Difference(taken.cpus)
		r, err := d.Plan(claim(fmt.Sprintf("claim-%d", step), slicecodec.CPUGroupName(node.ID), n), m, held)
		if fits := free.Size() >= n && !takesLast(m, taken.cpus, n); fits != (err == nil) {
			t.Fatalf("%d CPUs of %s: refused %v", n, free, err)
		}
		if err != nil {
			continue
		}
		if got := cpusOf(t, r); got.Size() != n || !got.IsSubsetOf(free) {
			t.Fatalf("got %s, want %d of %s", got, n, free)
		}
		held = append(held, r)
	}
	for _, node := range m.NUMANodes {
		all := allocatable(m, d, node.ID)
		if all.IsEmpty() || takesLast(m, cpuset.New(), all.Size()) {
			continue
		}
		if _, err := d.Plan(claim("last", slicecodec.CPUGroupName(node.ID), all.Size()), m, nil); err != nil {
			t.Errorf("after all claims went: %v", err)
		}
	}
}

// takesLast says whether n more CPUs are all that the machine has online, which Plan
// refuses although they are published. It cannot be where a CPU is reserved.
func takesLast(m *model.Machine, taken cpuset.CPUSet, n int) bool {
	online := 0
	for _, c := range m.CPUs {
		if c.Online {
			online++
		}
	}
	return taken.Size()+n == online
}

// allocatable are the CPUs that a node offers.
func allocatable(m *model.Machine, d Driver, node int) cpuset.CPUSet {
	if device := slicecodec.FindCPUDevice(m, d.Offer, slicecodec.CPUGroupName(node)); device != nil {
		return device.CPUs
	}
	return cpuset.New()
}

func claim(name, device string, n int) driver.Claim {
	return driver.Claim{
		ClaimRef: driver.ClaimRef{UID: types.UID(name), Namespace: "default", Name: name},
		Pods:     []driver.PodRef{{UID: "pod", Name: "pod"}},
		Devices: []driver.Allocation{{
			Request: "cpus", Pool: "node", Device: device,
			Consumed: map[string]resource.Quantity{"dra.cpu/cpu": *resource.NewQuantity(int64(n), resource.DecimalSI)},
		}},
	}
}

func cpusOf(t *testing.T, r driver.Record) cpuset.CPUSet {
	t.Helper()
	var p Plan
	if err := json.Unmarshal(r.Devices[0].Plan, &p); err != nil {
		t.Fatal(err)
	}
	return parse(t, p.CPUs)
}

func parse(t *testing.T, list string) cpuset.CPUSet {
	t.Helper()
	set, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
