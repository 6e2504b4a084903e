// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"math/rand/v2"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver/cpu/placement"
	"plumbline.dev/plumbline/internal/model"
)

// TestSequences runs random claims on random machines. Every CPU given lies in
// the group asked, none is given twice, as many as are free can be given, and
// when all is given back everything is free again.
func TestSequences(t *testing.T) {
	machines, steps := 240, 1000
	if testing.Short() {
		machines, steps = 20, 200
	}
	for seed := range machines {
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		s := randomShape(r)
		w := world{machine: s.build(), held: map[int]holding{}}
		for i := range w.groups {
			reserved := cpuset.New()
			if r.IntN(3) == 0 && w.groups[i].Size() > 2 {
				reserved = cpuset.New(w.groups[i].List()[:r.IntN(3)]...)
			}
			w.groups[i] = w.groups[i].Difference(reserved)
			w.free = append(w.free, w.groups[i])
		}
		for step := range steps {
			if err := w.step(r, step); err != "" {
				t.Fatalf("seed %d (%s), step %d: %s", seed, s, step, err)
			}
		}
		for key := range w.held {
			w.release(key)
		}
		for i := range w.groups {
			if !w.free[i].Equals(w.groups[i]) {
				t.Fatalf("seed %d (%s): group %d ends with %s free, began with %s", seed, s, i, w.free[i], w.groups[i])
			}
		}
	}
}

type holding struct {
	group int
	cpus  cpuset.CPUSet
	full  bool
}

type world struct {
	machine
	free []cpuset.CPUSet
	held map[int]holding
}

func (w *world) release(key int) {
	h := w.held[key]
	w.free[h.group] = w.free[h.group].Union(h.cpus)
	delete(w.held, key)
}

// step gives or takes back one claim and returns what is wrong.
func (w *world) step(r *rand.Rand, step int) string {
	if len(w.held) > 0 && r.IntN(3) == 0 {
		for key := range w.held {
			w.release(key)
			return ""
		}
	}
	group := r.IntN(len(w.groups))
	free := w.free[group]
	request := placement.Request{N: 1 + r.IntN(2+free.Size()), Free: free}
	if r.IntN(3) == 0 {
		request.Near = cpuset.New(free.List()[:free.Size()/2]...)
	}
	switch r.IntN(4) {
	case 0:
		request.Policy.Spread = true
	case 1:
		request.Policy.FullCores = true
	case 2:
		request.Policy.Prefer = model.EfficiencyCore
	}
	got, err := placement.Place(w.topology, request)
	again, _ := placement.Place(w.topology, request)
	full := request.Policy.FullCores
	switch {
	case !got.Equals(again):
		return "two answers to one question: " + got.String() + ", " + again.String()
	case err != nil && !got.IsEmpty():
		return "gives " + got.String() + " and an error: " + err.Error()
	case err != nil && !full && request.N <= free.Size():
		return "does not find what is free: " + err.Error()
	case err == nil && got.Size() != request.N:
		return "gives another number of CPUs: " + got.String()
	case !got.IsSubsetOf(free):
		return "gives " + got.Difference(free).String() + ", which are not free in the group"
	case err != nil:
		return ""
	}
	if full && !w.wholeCores(got) {
		return "full cores, and gives part of a core: " + got.String()
	}
	w.held[step] = holding{group: group, cpus: got, full: full}
	w.free[group] = free.Difference(got)
	return ""
}

func (w *world) wholeCores(cpus cpuset.CPUSet) bool {
	count := map[int]int{}
	for _, cpu := range cpus.List() {
		count[w.core[cpu]]++
	}
	for core, n := range count {
		if n != w.threads[core] {
			return false
		}
	}
	return true
}

// TestFullCoresFindsEverySum compares with trying all subsets of small groups.
func TestFullCoresFindsEverySum(t *testing.T) {
	for seed := range 300 {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		s := shape{sockets: 1, nodes: 1, cores: 1 + r.IntN(6), threads: 1 + r.IntN(4), perL3: r.IntN(3)}
		for id := range s.cores * s.threads {
			if r.IntN(4) == 0 {
				s.offline = append(s.offline, id)
			}
		}
		m := s.build()
		sums := map[int]bool{}
		for subset := range 1 << s.cores {
			sum := 0
			for core := range s.cores {
				if subset>>core&1 == 1 {
					sum += m.threads[core]
				}
			}
			sums[sum] = true
		}
		for n := 1; n <= m.groups[0].Size(); n++ {
			_, err := placement.Place(m.topology, placement.Request{
				N: n, Free: m.groups[0], Policy: placement.Policy{FullCores: true},
			})
			if possible := err == nil; possible != sums[n] {
				t.Fatalf("seed %d (%s): %d CPUs of full cores: %v, want possible: %v", seed, s, n, err, sums[n])
			}
		}
	}
}
